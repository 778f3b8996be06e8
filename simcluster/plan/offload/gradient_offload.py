"""Gradients that are accumulated in host memory or on disks: those of a micro-batch are copied out after its
backward.

So the device holds the gradients of few blocks at a time. It concerns gradients that the backward makes
whole, or shards; gradients that are reduced once per step have to be on the device for that. Disks do not
add: an accumulator there is read into host memory, gets its term, and is written back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from simcluster.layout import Movement
from simcluster.model import Block, MemoryPlace, Node, Phase, Role, Value
from simcluster.plan.execution import kernel_nodes
from simcluster.plan.offload.memory_copies import relocation_nodes
from simcluster.plan.rules import OffloadRule

_MAKING = (Phase.BACKWARD, Phase.WEIGHTS, Phase.SCATTER)


def gradient_accumulators(block: Block) -> dict[str, str]:
    """Accumulator of a block -> the parameter whose gradient it is."""
    return {block.gradients[name]: name for name in block.parameters if name in block.gradients}


def gradients_reduced_once(block: Block) -> set[str]:
    """The accumulators of a block that are reduced, or sliced, after the last backward of a step."""
    return {
        value
        for node in block.phase(Phase.END)
        if isinstance(node.operator, Movement)
        or any(block.values[out].role is Role.BUFFER for out in node.outputs)
        for value in node.inputs
    }


def offload_gradients(block: Block, chosen: Collection[str], rule: OffloadRule) -> Block:
    """The block whose ``chosen`` accumulators are offloaded; every micro-batch adds its gradients there.

    What replaces an accumulator before the update, as a clipped gradient, is offloaded too. Operators that
    read either are not changed.
    """
    values = dict(block.values)
    writers = {value: 0 for value in block.values if value in chosen}
    for node in block.phase(*_MAKING):
        for value in node.outputs:
            if value in writers:
                writers[value] += 1
    # Of several operators that make a part of it, all add to what leaves.
    part = {value: f"{value}.part" for value, count in writers.items() if count}
    for value, name in part.items():
        role = Role.GRADIENT if writers[value] == 1 else Role.SUM
        values[name] = replace(values[value], role=role)
    values |= {name: replace(values[name], place=rule.place) for name in {*chosen, *_scaled(block, chosen)}}
    nodes = [
        replace(node, outputs=tuple(part.get(value, value) for value in node.outputs))
        if node.phase in _MAKING
        else node
        for node in block.nodes
    ]
    for value, name in part.items():
        add = _with_sum if rule.place is MemoryPlace.DISK else relocation_nodes
        nodes += add(
            values, name, value, rule.place, rule, Phase.SCATTER, f"{value} lies on the {rule.place}"
        )
    order = list(Phase)
    nodes.sort(key=lambda node: order.index(node.phase))
    return replace(block, values=values, nodes=tuple(nodes))


def _with_sum(
    values: dict[str, Value],
    part: str,
    total: str,
    to: MemoryPlace,
    rule: OffloadRule,
    phase: Phase,
    why: str,
) -> list[Node]:
    """The nodes that add a part to a total on a disk, in the memory of the host."""
    held = f"{total}.held"
    values[held] = replace(values[total], role=Role.SUM, place=MemoryPlace.HOST)
    return [
        *relocation_nodes(values, part, held, MemoryPlace.HOST, rule, phase, why),
        *relocation_nodes(values, total, held, MemoryPlace.HOST, rule, phase, why),
        *relocation_nodes(values, held, total, to, rule, phase, why),
    ]


def with_gradient_views(block: Block, there: Collection[str]) -> set[str]:
    """The accumulators, and views that replace them before the update, among values stored at one place."""
    return {name for name in there if block.values[name].role in (Role.ACCUMULATOR, Role.VIEW)}


def _scaled(block: Block, accumulators: Collection[str]) -> set[str]:
    """What takes the place of accumulators before they are used, if more than one kernel sees it."""
    views = {
        out
        for node in block.phase(Phase.END)
        if any(value in accumulators for value in node.inputs)
        for out in node.outputs
        if block.values[out].role is Role.VIEW and not block.values[out].copy_of
    }
    kernels = kernel_nodes(list(block.phase(Phase.END)))
    return {value for value in views if sum(_uses(kernel, value) for kernel in kernels) > 1}


def _uses(kernel: Sequence[Node], value: str) -> bool:
    return any(value in (*node.inputs, *node.outputs) for node in kernel)
