"""Pass: ranks that save the same input of a recomputed layer save a part each.

That is Megatron's ``--distribute-saved-activations`` and MindSpore's ``recompute_slice_activation``: the part
is copied out in the forward, and the whole is all-gathered again before the backward recomputes the layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from simcluster.layout import Layout, Mesh
from simcluster.model import Block, Graph, Instance, Node, Phase, Role, Value
from simcluster.plan.redistribution import RedistributionPlanner

PART = ".part"
"""Suffix of the part of an input."""


def distribute_saved_inputs(
    graph: Graph, mesh: Mesh, axes: Sequence[str], router: RedistributionPlanner
) -> Graph:
    """The graph in which inputs of recomputed layers are saved in parts, over ``axes`` that replicate them.

    Inputs that other instances save whole, or that no dim lets divide, are left alone.
    """
    alone = _alone(graph)

    def parts(instance: Instance) -> Iterator[tuple[str, Layout]]:
        block = graph.block_of(instance)
        for inner, outer in zip(block.inputs, instance.inputs, strict=True) if block.recomputed else ():
            layout = _divided(block.values[inner], mesh, axes)
            if outer in alone and layout is not None:
                yield inner, layout

    kept = {instance.name: tuple(parts(instance)) for instance in graph.instances}
    return graph.specialised(
        kept,
        lambda block, instance: _slicing(block, dict(kept[instance.name]), router),
        lambda key, _: "".join(f".{value}" for value, _ in key) + (PART if key else ""),
    )


def is_distributed(graph: Graph) -> bool:
    """Whether some input of a recomputed layer is saved in parts."""
    return any(f"{name}{PART}" in block.values for block in graph.blocks.values() for name in block.inputs)


def _read(block: Block) -> set[str]:
    """What the backward of a block reads."""
    return {value for node in block.phase(Phase.BACKWARD) for value in node.inputs}


def _alone(graph: Graph) -> set[str]:
    """The graph values that are kept for the backward of one instance only."""
    kept: Counter[str] = Counter()
    for instance in graph.instances:
        block = graph.block_of(instance)
        read = _read(block)
        kept.update(
            outer for inner, outer in zip(block.inputs, instance.inputs, strict=True) if inner in read
        )
        kept.update(instance.output(value) for value in block.outputs if value in read)
    return {value for value, count in kept.items() if count == 1}


def _divided(value: Value, mesh: Mesh, axes: Sequence[str]) -> Layout | None:
    """The layout of the parts: over the first dim that all repeating axes divide."""
    layout = value.layout
    assert layout is not None
    free = tuple(axis for axis in axes if axis not in layout.axes and mesh.size(axis) > 1)
    for dim, size in enumerate(value.type.shape):
        split = layout.dims[dim] + free
        if free and size % mesh.product(split) == 0:
            return replace(layout, dims=(*layout.dims[:dim], split, *layout.dims[dim + 1 :]))
    return None


def _slicing(block: Block, parts: dict[str, Layout], router: RedistributionPlanner) -> Block:
    """The block with these inputs kept in parts."""
    values = dict(block.values)
    cuts: list[Node] = []
    gathers: list[Node] = []
    whole: dict[str, str] = {}
    for name, layout in parts.items():
        value = values[name]
        assert value.layout is not None
        for phase, nodes, start, end, suffix in (
            (Phase.FORWARD, cuts, value.layout, layout, PART),
            (Phase.BACKWARD, gathers, layout, value.layout, ".whole"),
        ):
            at = name if phase is Phase.FORWARD else f"{name}{PART}"
            path = router.path(value.type, start, end)
            for index, (movement, reached) in enumerate(path):
                made = f"{name}{suffix}" if index == len(path) - 1 else f"{name}{suffix}{index}"
                values[made] = replace(value, layout=reached, role=Role.ACTIVATION)
                why = "of a recomputed layer's input every rank keeps a part"
                label = f"{name}{suffix}.{movement.kind}"
                nodes.append(Node(label, movement, (at,), (made,), phase, origin=name, why=why))
                at = made
        whole[name] = f"{name}.whole"
    nodes = cuts
    for node in block.nodes:
        if node.phase is Phase.BACKWARD:
            nodes += gathers
            gathers = []
            node = replace(node, inputs=tuple(whole.get(value, value) for value in node.inputs))
        nodes.append(node)
    return replace(block, values=values, nodes=tuple(nodes))
