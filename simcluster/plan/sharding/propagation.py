"""Sharding propagation: operators without a strategy take the layouts of their neighbours (DESIGN 4.3).

As in MindSpore's ``sharding_propagation``, it goes outwards from configured operators, to producers and
consumers. Candidates for an operator are the strategies that keep the layout of some neighbour; it takes the
one of least time: redistribution to and from all neighbours that have a strategy, forward and backward, and
its own kernels (an operator that is replicated needs no communication, but more compute). Configured
operators are never changed. Unlike in MindSpore, where each configured operator in turn determines all that
is left, the search starts from all of them at once, so that the nearest one decides; the result is improved
until no operator is faster with another strategy.

If only subgraphs are sharded, propagation stays within each: everything outside keeps its strategy, and
operators at the boundary keep what the scenario fixes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.layout import Dims, Layout, Mesh, Strategy, padding_refusal
from simcluster.model import Graph, Node, Phase, TensorType
from simcluster.plan.redistribution import RedistributionPlanner
from simcluster.plan.rules import BATCH, AxisRoles
from simcluster.plan.sharding.block_sharder import operator_of
from simcluster.plan.sharding.propagation_edges import Edge, OperandRef, Vertex, edges_of
from simcluster.plan.strategies import DEFAULT, Strategies
from simcluster.plan.subgraphs import BoundaryConstraint, BoundaryConstraints
from simcluster.work import Work

PROPAGATED = "propagation"
MOST_ROUNDS = 8
"""Rounds of improvement over all operators."""

LEAST_MOVED, LEAST_KEPT, LEAST_TIME = range(3)
"""What is looked for: least communication and then the fastest kernels, as MindSpore chooses and its level 0
says; the fewest bytes on a rank (level 1); the least time of both together (level 2)."""

_TRAINED = 16
"""Bytes per element of a parameter with its gradient and Adam's states, in fp32 as in mixed precision (ZeRO,
arXiv 1910.02054)."""

_PASSES = 3
"""Kernels of a forward and a backward, counted in forwards."""

Price = Callable[[Sequence[Work]], float]
"""(kernels) -> seconds on the slowest device."""


def propagate(
    graph: Graph,
    found: Strategies,
    mesh: Mesh,
    roles: AxisRoles,
    router: RedistributionPlanner,
    price: Price,
    constraints: BoundaryConstraints | None = None,
) -> Strategies:
    """The strategies, with those of unconfigured operators derived from configured neighbours.

    With ``constraints`` only operators in subgraphs, from what these fix. Instances of one block with
    equal strategies count as one. PlanError if nothing is configured.
    """
    search = _Propagation.of(graph, found, mesh, roles, router, price, constraints)
    if constraints is None and not search.seeds:
        raise PlanError(
            "no operator is configured that the others could follow",
            path="parallel.propagate",
            hint="configure some in parallel.strategies, or name a recipe",
        )
    search.spread()
    search.improve()
    by_instance: dict[str, Mapping[str, Strategy]] = {}
    sources: dict[str, Mapping[str, str]] = {}
    made: dict[int, tuple[Mapping[str, Strategy], Mapping[str, str]]] = {}
    for instance in graph.instances:
        kind = search.kinds[instance.name]
        if kind not in made:
            before = found.sources[instance.name]
            chosen = {name: search.chosen[kind, name] for name in before}
            origins = {name: search.source((kind, name), source) for name, source in before.items()}
            made[kind] = chosen, origins
        by_instance[instance.name], sources[instance.name] = made[kind]
    return Strategies(by_instance, sources)


@dataclass(frozen=True, slots=True, order=True)
class _Rank:
    """What is looked for comes first, then seconds of redistribution, and last what settles a tie."""

    goal: tuple[float, ...]
    moving: float
    name: str


@dataclass
class _Propagation:
    """The graph of operators, each once for all equal instances, and the strategies chosen so far."""

    mesh: Mesh
    roles: AxisRoles
    router: RedistributionPlanner
    price: Price
    kinds: Mapping[str, int]
    nodes: Mapping[Vertex, Node]
    types: Mapping[Vertex, tuple[tuple[TensorType, ...], tuple[TensorType, ...]]]
    edges: Mapping[Vertex, Sequence[Edge]]
    counts: Mapping[Vertex, int]
    trained: Mapping[Vertex, frozenset[int]]
    constraints: Mapping[Vertex, BoundaryConstraint]
    seeds: list[Vertex]
    chosen: dict[Vertex, Strategy]
    decided: set[Vertex]
    reached: set[Vertex] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        graph: Graph,
        found: Strategies,
        mesh: Mesh,
        roles: AxisRoles,
        router: RedistributionPlanner,
        price: Price,
        constraints: BoundaryConstraints | None,
    ) -> _Propagation:
        """The search with nothing decided but what is configured, and what is outside of all pieces."""
        numbers: dict[tuple[str, int], int] = {}
        kinds = {
            instance.name: numbers.setdefault((instance.block, id(found.of(instance.name))), len(numbers))
            for instance in graph.instances
        }
        nodes: dict[Vertex, Node] = {}
        types: dict[Vertex, tuple[tuple[TensorType, ...], tuple[TensorType, ...]]] = {}
        chosen: dict[Vertex, Strategy] = {}
        counts: dict[Vertex, int] = {}
        seeds: list[Vertex] = []
        decided: set[Vertex] = set()
        pinned: dict[Vertex, BoundaryConstraint] = {}
        trained: dict[Vertex, frozenset[int]] = {}
        for instance in graph.instances:
            block, kind = graph.block_of(instance), kinds[instance.name]
            inside = None if constraints is None else constraints.get(block.name, {})
            for node in block.phase(Phase.FORWARD):
                vertex = kind, node.name
                counts[vertex] = counts.get(vertex, 0) + 1
                if vertex in nodes:
                    continue
                nodes[vertex] = node
                types[vertex] = (
                    tuple(block.values[value].type for value in node.inputs),
                    tuple(block.values[value].type for value in node.outputs),
                )
                trained[vertex] = frozenset(
                    index for index, value in enumerate(node.inputs) if value in block.parameters
                )
                chosen[vertex] = found.of(instance.name)[node.name]
                if inside is not None and node.name in inside:
                    pinned[vertex] = inside[node.name]
                free = inside is None or node.name in inside
                configured = found.sources[instance.name][node.name] != DEFAULT
                if configured and free:
                    seeds.append(vertex)
                if configured or not free:
                    decided.add(vertex)
        edges: dict[Vertex, list[Edge]] = {vertex: [] for vertex in nodes}
        for edge in edges_of(graph, kinds):
            edges[edge.source.vertex].append(edge)
            if edge.reader.vertex != edge.source.vertex:
                edges[edge.reader.vertex].append(edge)
        search = cls(
            mesh,
            roles,
            router,
            price,
            kinds,
            nodes,
            types,
            edges,
            counts,
            trained,
            pinned,
            seeds,
            chosen,
            decided,
        )
        search._fix()
        return search

    def _fix(self) -> None:
        """Decides what constraints fix, from where the search goes out too."""
        for vertex, constraint in self.constraints.items():
            if vertex in self.decided:
                self.chosen[vertex] = self._behind(vertex, self.chosen[vertex])
            elif constraint.fixes:
                self.chosen[vertex] = self._possible(vertex, {})
                self.seeds.append(vertex)
                self.reached.add(vertex)
        self.decided.update(self.seeds)

    def source(self, vertex: Vertex, before: str) -> str:
        """Where the strategy of an operator comes from, where it came from ``before``."""
        if vertex not in self.reached:
            return before
        constraint = self.constraints.get(vertex)
        return constraint.source if constraint is not None and constraint.fixes else PROPAGATED

    # -- the search -------------------------------------------------------------------------------------

    def spread(self) -> None:
        """Decides operator by operator, outwards from all configured ones at once."""
        queue = deque(self.seeds)
        while queue:
            vertex = queue.popleft()
            for edge in self.edges[vertex]:
                other = edge.reader.vertex if edge.source.vertex == vertex else edge.source.vertex
                if other in self.decided or self._piece(other) != self._piece(vertex):
                    continue
                self.chosen[other] = min(self._candidates(other), key=lambda each: self._rank(other, each))
                self.decided.add(other)
                self.reached.add(other)
                queue.append(other)

    def _piece(self, vertex: Vertex) -> tuple[int, str] | None:
        """The piece within which the search goes on from an operator; None: it may go anywhere."""
        constraint = self.constraints.get(vertex)
        return (vertex[0], constraint.piece) if constraint is not None else None

    def improve(self) -> None:
        """Lets every operator that was decided choose again, until none can do better."""
        for _ in range(MOST_ROUNDS):
            changed = False
            for vertex in self.nodes:
                if vertex not in self.reached:
                    continue
                best = min(self._candidates(vertex), key=lambda each: self._rank(vertex, each))
                if self._rank(vertex, best).goal < self._rank(vertex, self.chosen[vertex]).goal:
                    self.chosen[vertex] = best
                    changed = True
            if not changed:
                return

    def _candidates(self, vertex: Vertex) -> list[Strategy]:
        """The strategies that follow from neighbours: from each alone, and from all together."""
        splits: list[dict[str, tuple[str, ...]]] = []
        constraint = self.constraints.get(vertex)
        for index, layout in constraint.outputs if constraint else ():
            names = operator_of(self.nodes[vertex]).dims().outputs[index]
            splits.append(dict(zip(names, layout.dims, strict=True)))
        for edge in self.edges[vertex]:
            for own, other in ((edge.source, edge.reader), (edge.reader, edge.source)):
                if own.vertex == vertex and other.vertex in self.decided and other.vertex != vertex:
                    layout = self._layout(other, self.chosen[other.vertex]).reduced
                    splits.append(dict(zip(self._names(own), layout.dims, strict=True)))
        merged: dict[str, tuple[str, ...]] = {}
        for split in splits:
            used = {axis for axes in merged.values() for axis in axes}
            merged |= {
                dim: axes for dim, axes in split.items() if not merged.get(dim) and used.isdisjoint(axes)
            }
        default = {BATCH: self.roles.resolve((BATCH,), self.mesh)}
        possible = [self._possible(vertex, split) for split in (*splits, merged, default)]
        return list(dict.fromkeys(possible))

    def _possible(self, vertex: Vertex, split: Mapping[str, tuple[str, ...]]) -> Strategy:
        """The split without what the operator cannot do, and with its batch over the batch axes if free."""
        operator = operator_of(self.nodes[vertex])
        dims, (inputs, outputs) = operator.dims(), self.types[vertex]
        shapes = [kind.shape for kind in inputs + outputs]
        extent = dims.extents(shapes)
        wanted = {dim: axes for dim, axes in split.items() if dim in extent}
        if vertex in self.constraints:
            fixed = dict(self.constraints[vertex].splits)
            taken = {axis for axes in fixed.values() for axis in axes}
            wanted = {dim: axes for dim, axes in wanted.items() if taken.isdisjoint(axes)} | fixed
        if BATCH in extent:
            used = {axis for axes in wanted.values() for axis in axes}
            free = tuple(axis for axis in self.roles.resolve((BATCH,), self.mesh) if axis not in used)
            wanted.setdefault(BATCH, free)
        whole = {dim for dim, _ in dims.unsplittable}
        made: dict[str, tuple[str, ...]] = {}
        for dim, axes in wanted.items():
            kept = tuple(axis for axis in axes if self.mesh.size(axis) > 1)
            while kept and extent[dim] % self.mesh.product(kept) and not self._padded(dims, dim, shapes):
                kept = kept[:-1]
            while kept and dims.misfit(dim, shapes, self.mesh.product(kept)):
                kept = kept[:-1]
            if kept and (dim not in whole or operator.decompose(frozenset({dim})) is not None):
                made[dim] = kept
        return self._behind(vertex, Strategy.of(made))

    def _behind(self, vertex: Vertex, strategy: Strategy) -> Strategy:
        """The strategy with its results as they are to lie behind it, where that is fixed."""
        constraint = self.constraints.get(vertex)
        if constraint is None or not constraint.outputs or strategy.outputs:
            return strategy
        follows = operator_of(self.nodes[vertex]).dims().output_layouts(strategy)
        return replace(
            strategy,
            outputs=tuple(output for output in constraint.outputs if output[1] != follows[output[0]]),
        )

    def _padded(self, dims: Dims, dim: str, shapes: Sequence[Sequence[int]]) -> bool:
        """Whether a dim that does not divide may be padded."""
        return self.router.pads and not padding_refusal(dims, (dim,), shapes)

    # -- costs ------------------------------------------------------------------------------------------

    def _rank(self, vertex: Vertex, strategy: Strategy) -> _Rank:
        """How good a strategy is for an operator, the best first."""
        moving = sum(
            edge.count * self._between(edge, vertex, strategy)
            for edge in self.edges[vertex]
            if {edge.source.vertex, edge.reader.vertex} <= self.decided | {vertex}
        )
        count, level = self.counts[vertex], LEAST_TIME
        if vertex in self.constraints:
            level = self.constraints[vertex].level
            moving += count * self._settling(vertex, strategy)
        computing = count * self._computing(vertex, strategy)
        if level == LEAST_MOVED:
            return _Rank((moving, computing), moving, str(strategy))
        if level == LEAST_KEPT:
            return _Rank((self._bytes_of(vertex, strategy), moving + computing), moving, str(strategy))
        return _Rank((moving + computing,), moving, str(strategy))

    def _settling(self, vertex: Vertex, strategy: Strategy) -> float:
        """Seconds in which results get to the layouts fixed behind the operator, and their gradients back."""
        follows = operator_of(self.nodes[vertex]).dims().output_layouts(strategy)
        kinds = self.types[vertex][1]
        return sum(
            self.router.priced(kinds[index], follows[index], layout)[0]
            + self.router.priced(kinds[index], layout, follows[index].reduced)[0]
            for index, layout in strategy.outputs
        )

    def _bytes_of(self, vertex: Vertex, strategy: Strategy) -> float:
        """Bytes of what one rank has of the operator's operands and results, with states of parameters."""
        inputs, outputs = self._local(vertex, strategy)
        trained = self.trained[vertex]
        return sum(
            _TRAINED * kind.num_elements if index in trained else kind.num_bytes
            for index, kind in enumerate((*inputs, *outputs))
        )

    def _between(self, edge: Edge, vertex: Vertex, strategy: Strategy) -> float:
        """Seconds in which a tensor gets from one layout to the other, and its gradient back."""
        source, reader = edge.source, edge.reader
        making = strategy if source.vertex == vertex else self.chosen[source.vertex]
        reading = strategy if reader.vertex == vertex else self.chosen[reader.vertex]
        made, need = self._layout(source, making), self._layout(reader, reading)
        if not source.output:
            # A parameter that both read lies in one layout: the other one moves it, and its gradient.
            return 2 * self.router.priced(edge.type, made, need)[0]
        forward = self.router.priced(edge.type, made, need)[0]
        if not edge.trained:
            return forward
        dims = operator_of(self.nodes[reader.vertex]).dims()
        linear = any(len(members) == len(dims.inputs) for members in dims.linear)
        # What the gradient reads again is kept as it was made.
        again = 0.0 if linear else self.router.priced(edge.type, made.reduced, need)[0]
        due = self._due(reader, reading)
        # What a gradient owes to neighbours is left out: it is little, and the same whichever way it goes.
        behind = need.with_halos(()).with_partial(due)
        back = self.router.priced(edge.type, behind, made.with_halos(()).reduced)[0]
        return forward + again + back

    def _due(self, place: OperandRef, strategy: Strategy) -> tuple[str, ...]:
        """The axes over which the gradient of an input is a sum: those of dims that the input has not."""
        names = self._names(place)
        return tuple(axis for dim, axes in strategy.splits if dim not in names for axis in axes)

    def _computing(self, vertex: Vertex, strategy: Strategy) -> float:
        """Seconds of the operator's kernels on what one rank has: forward, and twice that backward."""
        operator = operator_of(self.nodes[vertex])
        inputs, outputs = self._local(vertex, strategy)
        return _PASSES * self.price(operator.work(inputs, outputs))

    def _local(self, vertex: Vertex, strategy: Strategy) -> list[list[TensorType]]:
        """What one rank has of an operator's inputs, and of its outputs."""
        dims = operator_of(self.nodes[vertex]).dims()
        return [
            [
                TensorType(strategy.layout(names).local_shape(kind.shape, self.mesh), kind.dtype)
                for names, kind in zip(operands, kinds, strict=True)
            ]
            for operands, kinds in zip((dims.inputs, dims.outputs), self.types[vertex], strict=True)
        ]

    # -- what operators have ------------------------------------------------------------------------------

    def _names(self, place: OperandRef) -> tuple[str, ...]:
        dims = operator_of(self.nodes[place.vertex]).dims()
        return dims.outputs[place.index] if place.output else dims.inputs[place.index]

    def _layout(self, place: OperandRef, strategy: Strategy) -> Layout:
        dims = operator_of(self.nodes[place.vertex]).dims()
        if not place.output:
            return dims.input_layouts(strategy)[place.index]
        behind = dict(strategy.outputs)
        return behind.get(place.index) or dims.output_layouts(strategy)[place.index]
