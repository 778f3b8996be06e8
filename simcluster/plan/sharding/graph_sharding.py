"""Pass: gives all values layouts, and inserts redistributions wherever two layouts differ.

Blocks are specialised by what differs between their instances: strategies, layouts of inputs, and the layouts
that others want of a result that is still partial. Equal instances share one specialised block.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from simcluster.errors import PlanError
from simcluster.layout import Layout, Mesh, Strategy
from simcluster.model import Block, Graph, Instance, Node, Operator, Phase, Role
from simcluster.plan.redistribution import RedistributionPlanner
from simcluster.plan.sharding.block_sharder import BlockSharder
from simcluster.plan.strategies import Strategies

_Key = tuple[object, ...]

NO_FEEDS: Mapping[str, Layout] = MappingProxyType({})
"""All inputs come in the layout that their first reader wants."""


def shard(
    graph: Graph,
    strategies: Strategies,
    mesh: Mesh,
    router: RedistributionPlanner,
    feeds: Mapping[str, Layout] = NO_FEEDS,
    passes: Collection[str] = (),
    stage_axis: str = "",
) -> Graph:
    """The graph over specialised blocks in which every value has a layout.

    ``feeds`` are layouts of inputs that come in another one than their first reader wants. Operators of the
    families ``passes`` become primitives, of which each may be fused with a neighbour. What is on all stages
    makes sums over ``stage_axis`` that are reduced to the stage that reads them, not here.
    """
    wanted = _wanted(graph, strategies)
    tied = _tied_layouts(graph, strategies)
    sums = _sums(graph, strategies)
    layouts: dict[str, Layout] = {}
    blocks: dict[_Key, Block] = {}
    instances: list[Instance] = []
    # Equal instances share one mapping of strategies, which are compared once.
    numbers: dict[int, int] = {}
    different: dict[tuple[Strategy, ...], int] = {}
    for instance in graph.instances:
        block = graph.block_of(instance)
        incoming = tuple(layouts[value] for value in instance.inputs)
        wants = tuple(wanted.get(instance.output(value)) for value in block.outputs)
        fixed = tuple(
            (name, tied[f"{instance.weight_owner}.{name}"])
            for name in (*block.parameters, *block.states)
            if f"{instance.weight_owner}.{name}" in tied
        )
        border = [*zip(block.inputs, instance.inputs, strict=True)]
        border += [(name, instance.output(name)) for name in block.outputs]
        border += [(name, f"{instance.weight_owner}.{name}") for name in block.parameters]
        added = tuple((inner, sums[outer]) for inner, outer in border if outer in sums)
        chosen = strategies.of(instance.weight_owner)
        if id(chosen) not in numbers:
            numbers[id(chosen)] = different.setdefault(tuple(chosen.values()), len(different))
        key: _Key = (instance.block, numbers[id(chosen)], incoming, wants, fixed, added)
        if key not in blocks:
            left = (stage_axis,) if instance.on_all_stages else ()
            sharder = BlockSharder(block, chosen, mesh, router, passes, left)
            given = {name: feeds[name] for name in block.feeds if name in feeds}
            made = sharder.run(incoming, wants, {**dict(fixed), **given}, dict(added))
            same = sum(name == block.name for name, *_ in blocks)
            blocks[key] = replace(made, name=f"{block.name}#{same}" if same else block.name)
        sharded_block = blocks[key]
        instances.append(replace(instance, block=sharded_block.name))
        for value in block.outputs:
            layout = sharded_block.values[value].layout
            assert layout is not None
            layouts[instance.output(value)] = layout.reduced if instance.on_all_stages else layout
    sharded = Graph({block.name: block for block in blocks.values()}, tuple(instances), graph.ties)
    _check_ties(sharded)
    return sharded


def _forward_readers(block: Block, value: str) -> Sequence[tuple[Node, int]]:
    return [
        (node, index)
        for node in block.phase(Phase.FORWARD)
        for index, name in enumerate(node.inputs)
        if name == value
    ]


def _first_wanted(block: Block, value: str, chosen: Mapping[str, Strategy]) -> Layout | None:
    """The layout in which the first operator that reads a value wants it."""
    for node, index in _forward_readers(block, value):
        assert isinstance(node.operator, Operator)
        if node.source in chosen:
            return chosen[node.source].layout(node.operator.dims().inputs[index])
    return None


def _wanted(graph: Graph, strategies: Strategies) -> dict[str, Layout]:
    """Graph value -> the layout its first reader in another instance wants."""
    layouts: dict[str, Layout] = {}
    wanted: dict[tuple[str, int], list[Layout | None]] = {}
    for instance in graph.instances:
        block, chosen = graph.block_of(instance), strategies.of(instance.weight_owner)
        kind = (instance.block, id(chosen))  # equal instances share one mapping of strategies
        if kind not in wanted:
            wanted[kind] = [_first_wanted(block, inner, chosen) for inner in block.inputs]
        for layout, outer in zip(wanted[kind], instance.inputs, strict=True):
            if layout is not None:
                layouts.setdefault(outer, layout)
    return layouts


def _sums(graph: Graph, strategies: Strategies) -> dict[str, frozenset[str]]:
    """What several read -> the axes over which all parts of its gradient are partial.

    Over these they add while partial, and the sum is reduced once: that of an activation where it was made,
    that of a tied parameter behind all micro-batches. It goes by graph values and full names of parameters.
    """
    axes: dict[str, frozenset[str]] = {}
    parts: dict[tuple[str, int, str], list[frozenset[str]]] = {}
    tied = {name: group[0] for group in graph.ties for name in group}
    for instance in graph.instances:
        block, chosen = graph.block_of(instance), strategies.of(instance.weight_owner)
        read = [
            (inner, outer)
            for inner, outer in zip(block.inputs, instance.inputs, strict=True)
            if inner in block.gradients and block.values[block.gradients[inner]].role is Role.SUM
        ]
        names = {f"{instance.weight_owner}.{name}": name for name in block.parameters}
        read += [
            (inner, tied[full]) for full, inner in names.items() if full in tied and inner not in block.frozen
        ]
        for inner, outer in read:
            kind = (instance.block, id(chosen), inner)
            if kind not in parts:
                parts[kind] = [
                    _partial_axes(node, index, chosen)
                    for node in block.phase(Phase.BACKWARD)
                    for index, value in enumerate(node.outputs)
                    if value == block.gradients[inner]
                ]
            for part in parts[kind]:
                axes[outer] = axes.get(outer, part) & part
    return axes | {name: axes[first] for name, first in tied.items() if first in axes}


def _partial_axes(node: Node, output: int, chosen: Mapping[str, Strategy]) -> frozenset[str]:
    """The axes over which a node's result is partial by its own strategy; none for a sum of gradients."""
    if node.source not in chosen:
        return frozenset()
    assert isinstance(node.operator, Operator)
    dims = node.operator.dims()
    splits = tuple(split for split in chosen[node.source].splits if split[0] in dims.names)
    return frozenset(dims.output_layouts(Strategy(splits))[output].partial_axes)


def _tied_layouts(graph: Graph, strategies: Strategies) -> dict[str, Layout]:
    """Full name of every tied parameter or cache -> the one layout all its copies have: the first copy's."""
    layouts: dict[str, Layout] = {}
    owners = {
        f"{instance.name}.{name}": (instance, name)
        for instance in graph.instances
        for name in (*graph.block_of(instance).parameters, *graph.block_of(instance).states)
    }
    for group in graph.ties:
        first, name = owners[group[0]]
        layout = _first_wanted(graph.block_of(first), name, strategies.of(first.name))
        assert layout is not None, f"tied parameter {group[0]} is read by nobody"
        layouts.update(dict.fromkeys(group, layout))
    return layouts


def _check_ties(graph: Graph) -> None:
    """Tied parameters add into one accumulator, so their gradients must be partial over the same axes."""
    layouts = {
        f"{instance.name}.{name}": graph.block_of(instance).values[gradient].layout
        for instance in graph.instances
        for name, gradient in graph.block_of(instance).gradients.items()
        if name in graph.block_of(instance).parameters
    }
    for group in graph.ties:
        differing = {name: layouts[name] for name in group if name in layouts}
        if len(set(differing.values())) > 1:
            listed = "; ".join(f"{name} {layout}" for name, layout in differing.items())
            raise PlanError(
                f"tied parameters need gradients in one layout, but have {listed}",
                path="parallel.strategies",
                hint="give the operators that use them the same strategy",
            )
