"""Sharding of one block: a layout for every value, and redistributions wherever two layouts differ.

The rules are those of DESIGN 4.2 and 4.4: a partial result is reduced once, where it is smallest on its
linear path, and all readers share the reduced one; what the backward needs is saved in its producer's layout
and redistributed again, unless the framework saves what the forward read.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims, Layout, Mesh, Movement, MovementKind, Strategy
from simcluster.model import Block, Node, Operator, Phase, RingTurns, Role, Value
from simcluster.plan.autodiff import GRADIENT_SUM
from simcluster.plan.redistribution import RedistributionPlanner, local_bytes
from simcluster.plan.sharding.padding import Padding
from simcluster.plan.sharding.sharded_values import ShardedValues

Readers = Mapping[str, Sequence[Node]]


def operator_of(node: Node) -> Operator:
    """The operator of a node that is not a movement."""
    assert isinstance(node.operator, Operator)
    return node.operator


@dataclass
class BlockSharder:
    """Shards one block with one choice of strategies."""

    block: Block
    """The differentiated block."""
    strategies: Mapping[str, Strategy]
    """Forward operator -> strategy."""
    mesh: Mesh
    """The mesh."""
    router: RedistributionPlanner
    """Finds redistributions."""
    passes: Collection[str] = ()
    """Operator families that run as their primitives, whatever is split."""
    unreduced: tuple[str, ...] = ()
    """Axes over which what leaves the block stays partial: somebody else reduces it."""
    sharded: ShardedValues = field(init=False)
    """The values and nodes of the sharded block so far."""
    padding: Padding = field(init=False)
    """Masks for padded dims."""
    common: Mapping[str, frozenset[str]] = field(init=False, default_factory=dict)
    """Accumulator -> the axes over which all its terms are partial."""
    results_after: Mapping[str, tuple[Layout, bool]] = field(init=False)
    """Result -> the layout that its strategy prescribes, and whether by a reduce-scatter."""

    def __post_init__(self) -> None:
        self.sharded = ShardedValues(self.router, dict(self.block.values))
        self.padding = Padding(self.sharded)
        self.results_after = {
            node.outputs[index]: (layout, self.strategies[node.name].scatter)
            for node in self.block.phase(Phase.FORWARD)
            if node.name in self.strategies
            for index, layout in self.strategies[node.name].outputs
        }

    def run(
        self,
        incoming: Sequence[Layout],
        wants: Sequence[Layout | None],
        fixed: Mapping[str, Layout],
        sums: Mapping[str, frozenset[str]],
    ) -> Block:
        """The sharded block.

        ``incoming`` are the layouts of the block's inputs, ``wants`` those that other blocks want of its
        outputs, ``fixed`` those of parameters and feeds that are decided already. ``sums`` are the axes over
        which gradients of inputs, outputs and parameters that several blocks read stay partial while they are
        summed.
        """
        block, sharded = self.block, self.sharded
        nodes = [part for node in block.nodes for part in self._primitives(node)]
        forward = [node for node in nodes if node.phase is Phase.FORWARD]
        backward = [node for node in nodes if node.phase is Phase.BACKWARD]
        for value, layout in zip(block.inputs, incoming, strict=True):
            sharded.put(value, layout)
        for name in (*block.parameters, *block.feeds, *block.states):
            sharded.put(name, fixed.get(name) or self._first_wanted(name, forward))
        for name in (*block.parameters, *block.feeds):
            # They come padded with zeros, and gradients keep those of parameters.
            sharded.zero[name] = frozenset(range(len(sharded.type(name).shape)))
        kept = {value for node in backward for value in node.inputs} | set(block.outputs)
        self._phase(forward, kept)
        for value, want in zip(block.outputs, wants, strict=True):
            layout = sharded.layout(value)
            if layout.partial:
                target = self._leaving(layout, want or layout.reduced)
                sharded.fetch(value, target, "the next block")
                if self.unreduced:
                    sharded.keep(value, target)
        if not self.router.saves_as_read:
            self._keep_exchanged(backward)
        sharded.enter(Phase.BACKWARD)
        shared = [value for value in (*block.inputs, *block.parameters) if value in sums]
        added = {block.gradients[value]: sums[value] for value in shared}
        self.common = {**self._common_partial(backward), **added}
        for value in (name for name in block.outputs if name in block.gradients):
            layout = sharded.layout(value)
            layout = layout.reduced if self.unreduced else layout
            partial = [axis for axis in sorted(sums.get(value, ())) if axis not in layout.axes]
            sharded.put(block.gradients[value], layout.with_partial(partial))
        self._phase(backward, {grad for value, grad in block.gradients.items() if value not in block.outputs})
        gradients = dict(block.gradients)
        for value in block.inputs:
            if value in gradients and value not in sums:
                target = self._leaving(sharded.layout(gradients[value]), sharded.layout(value))
                gradients[value] = sharded.fetch(gradients[value], target, "the block before")
        made = replace(block, values=sharded.values, nodes=tuple(sharded.nodes), gradients=gradients)
        return _with_homes_as_outputs(made, {value: sharded.home(value) for value in block.outputs})

    def _leaving(self, layout: Layout, target: Layout) -> Layout:
        """The layout in which a value leaves the block, of one that others want in ``target``."""
        return target.with_partial([axis for axis in self.unreduced if axis in layout.partial_axes])

    def _keep_exchanged(self, backward: Sequence[Node]) -> None:
        """Keeps what was exchanged all to all as it lies then, where that spares backward the exchange.

        Elsewhere a value is kept as its producer made it (DESIGN 4.4), because a gathered copy is larger. An
        exchanged one is not: to exchange it again would only cost time.
        """
        needs: defaultdict[str, set[Layout]] = defaultdict(set)
        for node in backward:
            if node.source in self.strategies and isinstance(node.operator, Operator):
                layouts = operator_of(node).dims().input_layouts(self._strategy(node))
                for value, layout in zip(node.inputs, layouts, strict=True):
                    needs[value].add(layout)
        exchanged = {
            node.outputs[0]
            for node in self.sharded.nodes
            if isinstance(node.operator, Movement) and node.operator.kind is MovementKind.ALL_TO_ALL
        }
        # What crosses the border lies, and has its gradient, as other blocks were told.
        fixed = {*self.block.inputs, *self.block.outputs, *self.block.parameters}
        for value, wanted in needs.items():
            versions = self.sharded.versions(value)
            moved = [layout for layout, name in versions.items() if name in exchanged]
            if moved and value not in fixed:
                costs = {
                    start: sum(
                        self.router.priced(self.sharded.type(value), start, need)[0] for need in wanted
                    )
                    for start in (self.sharded.layout(value), *moved)
                }
                self.sharded.keep(value, min(costs, key=lambda start: costs[start]))

    # -- strategies -------------------------------------------------------------------------------------

    def _primitives(self, node: Node) -> list[Node]:
        """The node, or the primitives it is made of where a dim is split that it cannot split itself, or
        where they run as passes of their own.
        """
        operator = operator_of(node)
        barred = frozenset(dim for dim, _ in operator.dims().unsplittable)
        split = frozenset(dim for dim, _ in self._strategy(node).splits if dim in barred)
        if operator.family in self.passes:
            split = barred
        operator = self._ringed(node, operator, split)
        decomposition = operator.decompose(split) if split else None
        if decomposition is None:
            return [node]
        names = {f"in{i}": value for i, value in enumerate(node.inputs)}
        names |= {f"out{i}": value for i, value in enumerate(node.outputs)}
        primitives = []
        for suffix, part, inputs, outputs in decomposition.parts:
            kinds = [self.sharded.type(names[name]) for name in inputs]
            if isinstance(part, Movement):
                (dim,) = split
                part, made = replace(part, axes=dict(self._strategy(node).splits)[dim]), tuple(kinds)
            else:
                made = part.infer(kinds)
            for name, kind in zip(outputs, made, strict=True):
                if name not in names:
                    names[name] = f"{node.name}.{name}"
                    self.sharded.values[names[name]] = Value(kind)
            bound = tuple(names[name] for name in inputs), tuple(names[name] for name in outputs)
            primitives.append(replace(node, name=f"{node.name}.{suffix}", operator=part, origin=node.source))
            primitives[-1] = replace(primitives[-1], inputs=bound[0], outputs=bound[1])
        return primitives

    def _ringed(self, node: Node, operator: Operator, split: frozenset[str]) -> Operator:
        """The operator in as many turns as it has slices, if it takes turns."""
        splits = dict(self._strategy(node).splits)
        if len(split) != 1 or not split <= splits.keys():
            return operator
        (dim,) = split
        ways = self.mesh.product(splits[dim])
        shapes = [self.sharded.type(value).shape for value in (*node.inputs, *node.outputs)]
        return operator.rewrite(RingTurns(ways, operator.dims().extents(shapes)[dim])) or operator

    def _strategy(self, node: Node) -> Strategy:
        """The strategy of a node's forward operator, as far as it concerns dims that the node has."""
        names = operator_of(node).dims().names
        given = self.strategies.get(node.source, Strategy())
        return Strategy(tuple((dim, axes) for dim, axes in given.splits if dim in names))

    def _followed(self, node: Node) -> Strategy:
        """The strategy of a sum of gradients: its terms' common split, so that partial terms add first."""
        splits = {self.sharded.layout(value).dims for value in node.inputs}
        dims = splits.pop()
        if splits:
            sums = {f"{value}{GRADIENT_SUM}": value for value in self.block.values}
            dims = self.sharded.layout(sums[node.name]).dims
        return Strategy.of(dict(zip(operator_of(node).dims().inputs[0], dims, strict=True)))

    def _first_wanted(self, value: str, nodes: Sequence[Node]) -> Layout:
        """The layout in which the first reader of a value wants it."""
        for node in nodes:
            if value in node.inputs:
                dims = operator_of(node).dims()
                return self._strategy(node).layout(dims.inputs[node.inputs.index(value)])
        return Layout.replicated(len(self.sharded.type(value).shape))

    # -- a phase ----------------------------------------------------------------------------------------

    def _phase(self, nodes: Sequence[Node], kept: set[str]) -> None:
        readers: defaultdict[str, list[Node]] = defaultdict(list)
        for node in nodes:
            for value in node.inputs:
                readers[value].append(node)
        for node in nodes:
            if isinstance(node.operator, Movement):
                self.sharded.carry(node, self._carried(node, readers))
                continue
            known = node.source in self.strategies
            self._place(node, self._strategy(node) if known else self._followed(node), readers, kept)

    def _carried(self, node: Node, readers: Readers) -> Layout | None:
        """The layout in which what goes around is read by what it goes around for."""
        (value,) = node.outputs
        for reader in readers[value]:
            if isinstance(reader.operator, Operator) and reader.source == node.source:
                layouts = reader.operator.dims().input_layouts(self._strategy(reader))
                return layouts[reader.inputs.index(value)]
        return None

    def _place(self, node: Node, strategy: Strategy, readers: Readers, kept: set[str]) -> None:
        sharded, dims = self.sharded, operator_of(node).dims()
        passing = self._passing(node, dims, strategy, readers, kept)
        axes = sharded.layout(node.inputs[min(passing)]).partial_axes if passing else ()
        joining = dims.passes(axes[0], passing, strategy) if axes else None
        inputs = tuple(
            sharded.fetch(value, need.with_partial(axes if index in passing else ()), node.name)
            for index, (value, need) in enumerate(zip(node.inputs, dims.input_layouts(strategy), strict=True))
        )
        inputs, zero = self.padding.through(node, dims, strategy, inputs)
        masked = dims.masked(strategy) + tuple((index, axes) for index in sorted(joining or ()))
        placed = replace(node, inputs=inputs, strategy=strategy, masked=masked)
        sharded.nodes.append(placed)
        outputs = []
        tails: list[tuple[str, Layout, str, tuple[str, ...]]] = []
        made = zip(node.outputs, dims.output_layouts(strategy, axes), zero, dims.outputs, strict=True)
        for value, layout, clean, names in made:
            target = self._accumulator_layout(value, layout)
            if target == layout and not self.padding.unknown(value, layout, clean):
                sharded.put(value, layout, node.name)
                sharded.zero[value] = clean
                outputs.append(value)
            else:
                part = f"{node.name}.{value}"
                sharded.values[part] = replace(sharded.kind(value), role=Role.GRADIENT)
                sharded.put(part, layout, node.name)
                sharded.zero[part] = clean
                outputs.append(part)
                tails.append((part, target, value, names))
        sharded.nodes[-1] = replace(placed, outputs=tuple(outputs))
        for part, target, value, names in tails:
            last = sharded.fetch(part, target, value)
            unknown = self.padding.unknown(value, target, sharded.zero.get(last, frozenset()))
            if unknown:
                sharded.masked(last, names, unknown, 0.0, into=value)
            else:
                sharded.nodes[-1] = replace(sharded.nodes[-1], outputs=(value,))
            sharded.put(value, target, node.name)
        if node.phase is Phase.FORWARD:
            for value in node.outputs:
                if value in self.results_after:
                    layout, scatter = self.results_after[value]
                    sharded.assign(value, layout, scatter=scatter)

    def _accumulator_layout(self, value: str, layout: Layout) -> Layout:
        """The layout a result is stored in: where gradients add up, the split of what they belong to."""
        if self.sharded.kind(value).role not in (Role.ACCUMULATOR, Role.SUM):
            return layout
        owner = next((name for name, grad in self.block.gradients.items() if grad == value), None)
        if owner is None:
            return layout
        home = self.sharded.layout(owner)
        common = self.common.get(value, layout.partial_axes)
        partial = (item for item in layout.partial if item[0] in common and item[0] not in home.axes)
        return replace(home, partial=tuple(partial))

    def _common_partial(self, nodes: Sequence[Node]) -> dict[str, frozenset[str]]:
        """Accumulator of several terms -> the axes over which all of them are partial, and so their sum."""
        partial_axes: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
        for node in nodes:
            if isinstance(node.operator, Movement):
                continue
            layouts = operator_of(node).dims().output_layouts(self._strategy(node))
            for value, layout in zip(node.outputs, layouts, strict=True):
                if self.sharded.kind(value).role is Role.ACCUMULATOR:
                    partial_axes[value].append(frozenset(layout.partial_axes))
        return {
            value: frozenset.intersection(*terms) for value, terms in partial_axes.items() if len(terms) > 1
        }

    def _passing(
        self, node: Node, dims: Dims, strategy: Strategy, readers: Readers, kept: set[str]
    ) -> frozenset[int]:
        """The inputs that stay partial through this node, because its result is smaller to reduce.

        Where it adds up in accumulators, which are reduced once a step and not in every micro-batch, as many
        elements are enough, whatever their format.
        """
        sharded = self.sharded
        wanted = dims.input_layouts(strategy)
        by_partial: defaultdict[tuple[tuple[str, str], ...], set[int]] = defaultdict(set)
        for index, value in enumerate(node.inputs):
            layout = sharded.layout(value)
            alone = len(readers[value]) == 1 and value not in kept
            if layout.partial and not layout.halos and alone and self._reaches(value, wanted[index]):
                by_partial[layout.partial].add(index)
        if len(by_partial) != 1:
            return frozenset()
        ((partial, same_partial),) = by_partial.items()
        indices = frozenset(same_partial)
        if any(how != "sum" or dims.passes(axis, indices, strategy) is None for axis, how in partial):
            return frozenset()
        before = [(node.inputs[index], wanted[index]) for index in indices]
        after = [*zip(node.outputs, dims.output_layouts(strategy), strict=True)]
        if all(sharded.kind(value).role is Role.ACCUMULATOR for value in node.outputs):
            return indices if self._elements(after) <= self._elements(before) else frozenset()
        return indices if self._bytes(after) < self._bytes(before) else frozenset()

    def _reaches(self, value: str, wanted: Layout) -> bool:
        """Whether a partial value lies as wanted but for its sum, or does after an exchange all to all."""
        layout = self.sharded.layout(value)
        if layout.reduced == wanted:
            return True
        if wanted.halos or any(axis in wanted.axes for axis in layout.partial_axes):
            return False
        target = replace(wanted, partial=layout.partial)
        path = self.router.path(self.sharded.type(value), layout, target)
        return all(movement.kind is MovementKind.ALL_TO_ALL for movement, _ in path)

    def _bytes(self, values: Iterable[tuple[str, Layout]]) -> int:
        """What a rank holds of some values in these layouts."""
        return sum(local_bytes(self.sharded.type(value), layout, self.mesh) for value, layout in values)

    def _elements(self, values: Iterable[tuple[str, Layout]]) -> int:
        """The same, counted in elements."""
        shapes = (layout.local_shape(self.sharded.type(value).shape, self.mesh) for value, layout in values)
        return sum(map(math.prod, shapes))


def _with_homes_as_outputs(block: Block, homes: Mapping[str, str]) -> Block:
    """The block with the reduced version of an output under the output's public name."""
    renames: dict[str, str] = {}
    for value, home in homes.items():
        if home != value:
            made = block.values[value].layout
            renames |= {value: f"{value}.{'partial' if made and made.partial else 'inner'}", home: value}
    if not renames:
        return block
    nodes = tuple(
        replace(
            node,
            inputs=tuple(renames.get(name, name) for name in node.inputs),
            outputs=tuple(renames.get(name, name) for name in node.outputs),
        )
        for node in block.nodes
    )
    values = {renames.get(name, name): value for name, value in block.values.items()}
    return replace(block, nodes=nodes, values=values)
