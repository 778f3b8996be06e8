"""Sharding propagation: operators that nobody configured take the layouts of their neighbours (DESIGN 4.3).

As MindSpore's ``sharding_propagation``: from the configured operators outwards, to those that make what they
read and those that read what they make, each operator takes, of the strategies under which some neighbour's
layout stays as it is, the one that takes least time: redistribution from and to all neighbours that have
theirs, forward and backward, and its own kernels. These count too because an operator that is repeated on
every rank needs no communication. Configured operators are never changed. Unlike in MindSpore, where each
configured operator in turn floods what is left, the search goes out from all of them at once, so that the
nearest one counts, and what it found is gone over again until no operator can do better by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from simcluster.errors import PlanError
from simcluster.layout import Dims, Layout, Mesh, Strategy, refusal
from simcluster.model import Graph, Node, Operator, Phase, TensorType
from simcluster.plan.redistribute import Router
from simcluster.plan.rule import BATCH, Roles
from simcluster.plan.strategies import DEFAULT, Strategies
from simcluster.work import Work

PROPAGATED = "propagation"
MOST_ROUNDS = 8
"""How often all operators are gone over again."""

_PASSES = 3
"""Kernels of a forward and a backward, counted in forwards."""

Price = Callable[[Sequence[Work]], float]
"""Seconds of some kernels on the slowest device."""

Vertex = tuple[int, str]
"""A kind of instances by its number, and an operator of their block."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One operand of an operator: an input or an output by its index."""

    vertex: Vertex
    index: int
    output: bool


@dataclass(frozen=True, slots=True)
class _Edge:
    """A tensor that one operator makes, or shares as a parameter, and another reads; ``count`` times.

    ``trained``: parameters led to it, so that its gradient comes back.
    """

    source: _Place
    reader: _Place
    type: TensorType
    trained: bool
    count: int


def propagate(
    graph: Graph, found: Strategies, mesh: Mesh, roles: Roles, router: Router, price: Price
) -> Strategies:
    """The strategies with those of unconfigured operators propagated from the configured ones.

    Equal instances of a block are one, whatever their number. PlanError if nothing is configured.
    """
    search = _Propagation.of(graph, found, mesh, roles, router, price)
    if not search.fixed:
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
            told = {
                name: PROPAGATED if (kind, name) in search.reached else source
                for name, source in before.items()
            }
            made[kind] = chosen, told
        by_instance[instance.name], sources[instance.name] = made[kind]
    return Strategies(by_instance, sources)


@dataclass
class _Propagation:
    """The graph of operators, each once for all equal instances, and the strategies chosen so far."""

    mesh: Mesh
    roles: Roles
    router: Router
    price: Price
    kinds: Mapping[str, int]
    nodes: Mapping[Vertex, Node]
    types: Mapping[Vertex, tuple[tuple[TensorType, ...], tuple[TensorType, ...]]]
    edges: Mapping[Vertex, Sequence[_Edge]]
    counts: Mapping[Vertex, int]
    fixed: Sequence[Vertex]
    chosen: dict[Vertex, Strategy]
    decided: set[Vertex]
    reached: set[Vertex] = field(default_factory=set)

    @classmethod
    def of(
        cls, graph: Graph, found: Strategies, mesh: Mesh, roles: Roles, router: Router, price: Price
    ) -> _Propagation:
        """The search with nothing decided but what is configured."""
        numbers: dict[tuple[str, int], int] = {}
        kinds = {
            instance.name: numbers.setdefault((instance.block, id(found.of(instance.name))), len(numbers))
            for instance in graph.instances
        }
        nodes: dict[Vertex, Node] = {}
        types: dict[Vertex, tuple[tuple[TensorType, ...], tuple[TensorType, ...]]] = {}
        chosen: dict[Vertex, Strategy] = {}
        counts: dict[Vertex, int] = {}
        fixed: list[Vertex] = []
        for instance in graph.instances:
            block, kind = graph.block_of(instance), kinds[instance.name]
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
                chosen[vertex] = found.of(instance.name)[node.name]
                if found.sources[instance.name][node.name] != DEFAULT:
                    fixed.append(vertex)
        edges: dict[Vertex, list[_Edge]] = {vertex: [] for vertex in nodes}
        for edge in _edges(graph, kinds):
            edges[edge.source.vertex].append(edge)
            if edge.reader.vertex != edge.source.vertex:
                edges[edge.reader.vertex].append(edge)
        return cls(mesh, roles, router, price, kinds, nodes, types, edges, counts, fixed, chosen, set(fixed))

    # -- the search -------------------------------------------------------------------------------------

    def spread(self) -> None:
        """Decides operator by operator, outwards from all configured ones at once."""
        queue = deque(self.fixed)
        while queue:
            vertex = queue.popleft()
            for edge in self.edges[vertex]:
                other = edge.reader.vertex if edge.source.vertex == vertex else edge.source.vertex
                if other in self.decided:
                    continue
                self.chosen[other] = min(self._candidates(other), key=lambda each: self._rank(other, each))
                self.decided.add(other)
                self.reached.add(other)
                queue.append(other)

    def improve(self) -> None:
        """Lets every operator that was decided choose again, until none can do better."""
        for _ in range(MOST_ROUNDS):
            changed = False
            for vertex in self.nodes:
                if vertex not in self.reached:
                    continue
                best = min(self._candidates(vertex), key=lambda each: self._rank(vertex, each))
                if self._rank(vertex, best)[0] < self._rank(vertex, self.chosen[vertex])[0]:
                    self.chosen[vertex] = best
                    changed = True
            if not changed:
                return

    def _candidates(self, vertex: Vertex) -> list[Strategy]:
        """The strategies that follow from neighbours: from each alone, and from all together."""
        found: list[dict[str, tuple[str, ...]]] = []
        for edge in self.edges[vertex]:
            for mine, other in ((edge.source, edge.reader), (edge.reader, edge.source)):
                if mine.vertex == vertex and other.vertex in self.decided and other.vertex != vertex:
                    layout = self._layout(other, self.chosen[other.vertex]).reduced
                    found.append(dict(zip(self._names(mine), layout.dims, strict=True)))
        merged: dict[str, tuple[str, ...]] = {}
        for split in found:
            used = {axis for axes in merged.values() for axis in axes}
            merged |= {
                dim: axes for dim, axes in split.items() if not merged.get(dim) and used.isdisjoint(axes)
            }
        default = {BATCH: self.roles.resolve((BATCH,), self.mesh)}
        possible = [self._possible(vertex, split) for split in (*found, merged, default)]
        return list(dict.fromkeys(possible))

    def _possible(self, vertex: Vertex, split: Mapping[str, tuple[str, ...]]) -> Strategy:
        """The split without what the operator cannot do, and with its batch over the batch axes if free."""
        operator = _operator(self.nodes[vertex])
        dims, (inputs, outputs) = operator.dims(), self.types[vertex]
        shapes = [kind.shape for kind in inputs + outputs]
        extent = dims.extents(shapes)
        wanted = {dim: axes for dim, axes in split.items() if dim in extent}
        if BATCH in extent:
            used = {axis for axes in wanted.values() for axis in axes}
            free = tuple(axis for axis in self.roles.resolve((BATCH,), self.mesh) if axis not in used)
            wanted.setdefault(BATCH, free)
        whole = {dim for dim, _ in dims.whole}
        made: dict[str, tuple[str, ...]] = {}
        for dim, axes in wanted.items():
            kept = tuple(axis for axis in axes if self.mesh.size(axis) > 1)
            while kept and extent[dim] % self.mesh.product(kept) and not self._padded(dims, dim, shapes):
                kept = kept[:-1]
            while kept and dims.misfit(dim, shapes, self.mesh.product(kept)):
                kept = kept[:-1]
            if kept and (dim not in whole or operator.decompose(frozenset({dim})) is not None):
                made[dim] = kept
        return Strategy.of(made)

    def _padded(self, dims: Dims, dim: str, shapes: Sequence[Sequence[int]]) -> bool:
        """Whether a dim that does not divide may be padded."""
        return self.router.pads and not refusal(dims, (dim,), shapes)

    # -- costs ------------------------------------------------------------------------------------------

    def _rank(self, vertex: Vertex, strategy: Strategy) -> tuple[float, float, str]:
        """Seconds of redistribution and kernels, of redistribution alone, and what settles a tie."""
        moving = sum(
            edge.count * self._between(edge, vertex, strategy)
            for edge in self.edges[vertex]
            if {edge.source.vertex, edge.reader.vertex} <= self.decided | {vertex}
        )
        return moving + self.counts[vertex] * self._computing(vertex, strategy), moving, str(strategy)

    def _between(self, edge: _Edge, vertex: Vertex, strategy: Strategy) -> float:
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
        dims = _operator(self.nodes[reader.vertex]).dims()
        linear = any(len(members) == len(dims.inputs) for members in dims.linear)
        # What the gradient reads again is kept as it was made.
        again = 0.0 if linear else self.router.priced(edge.type, made.reduced, need)[0]
        due = self._due(reader, reading)
        # What a gradient owes to neighbours is left out: it is little, and the same whichever way it goes.
        behind = need.with_halos(()).with_partial(due)
        back = self.router.priced(edge.type, behind, made.with_halos(()).reduced)[0]
        return forward + again + back

    def _due(self, place: _Place, strategy: Strategy) -> tuple[str, ...]:
        """The axes over which the gradient of an input is a sum: those of dims that the input has not."""
        names = self._names(place)
        return tuple(axis for dim, axes in strategy.splits if dim not in names for axis in axes)

    def _computing(self, vertex: Vertex, strategy: Strategy) -> float:
        """Seconds of the operator's kernels on what one rank has: forward, and twice that backward."""
        operator = _operator(self.nodes[vertex])
        dims = operator.dims()
        local = [
            [
                TensorType(strategy.layout(names).local_shape(kind.shape, self.mesh), kind.dtype)
                for names, kind in zip(operands, kinds, strict=True)
            ]
            for operands, kinds in zip((dims.inputs, dims.outputs), self.types[vertex], strict=True)
        ]
        return _PASSES * self.price(operator.work(*local))

    # -- what operators have ------------------------------------------------------------------------------

    def _names(self, place: _Place) -> tuple[str, ...]:
        dims = _operator(self.nodes[place.vertex]).dims()
        return dims.outputs[place.index] if place.output else dims.inputs[place.index]

    def _layout(self, place: _Place, strategy: Strategy) -> Layout:
        dims = _operator(self.nodes[place.vertex]).dims()
        if not place.output:
            return dims.input_layouts(strategy)[place.index]
        behind = dict(strategy.outputs)
        return behind.get(place.index) or dims.output_layouts(strategy)[place.index]


def _operator(node: Node) -> Operator:
    assert isinstance(node.operator, Operator)
    return node.operator


def _edges(graph: Graph, kinds: Mapping[str, int]) -> Iterator[_Edge]:
    """Every tensor between two operators, in the order of the graph; equal instances have one together."""
    counts: dict[_Edge, int] = {}
    made: dict[str, tuple[_Place, bool]] = {}
    owners: dict[str, _Place] = {}
    for instance in graph.instances:
        block, kind = graph.block_of(instance), kinds[instance.name]
        outside = zip(block.inputs, instance.inputs, strict=True)
        local = {inner: made[outer] for inner, outer in outside if outer in made}
        for node in block.phase(Phase.FORWARD):
            vertex = kind, node.name
            trains = any(
                value in block.parameters or (value in local and local[value][1]) for value in node.inputs
            )
            for index, value in enumerate(node.inputs):
                reader, type_ = _Place(vertex, index, output=False), block.values[value].type
                source, trained = local.get(value, (None, True))
                if value in block.parameters:
                    first = owners.setdefault(graph.canonical(f"{instance.name}.{value}"), reader)
                    source = first if first.vertex != vertex else None
                if source is not None:
                    edge = _Edge(source, reader, type_, trained and type_.dtype.is_float, 0)
                    counts[edge] = counts.get(edge, 0) + 1
            for index, value in enumerate(node.outputs):
                local[value] = _Place(vertex, index, output=True), trains
        made |= {instance.output(value): local[value] for value in block.outputs if value in local}
    for edge, count in counts.items():
        yield replace(edge, count=count)
