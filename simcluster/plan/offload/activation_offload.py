"""Activations that are offloaded between forward and backward.

A copy leaves after the operator that makes the value, or at the start of the block that receives it; the
device frees the value when the copy has ended and the forward has read it. Before the block's backward (phase
``fetch``) everything is copied back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

from simcluster.model import Block, Graph, JoinChunks, MemoryPlace, Node, Phase, Role, SplitChunks
from simcluster.plan.execution import kernel_nodes
from simcluster.plan.offload.memory_copies import relocation_nodes
from simcluster.plan.rules import OffloadRule

_BACKWARD = (Phase.BACKWARD, Phase.WEIGHTS)


def kept_activations(graph: Graph) -> dict[str, dict[str, str]]:
    """By block, the values that its forward saves for its own backward: value -> its name in patterns.

    Not those that the backward of other blocks reads too, which stay anyway, and not views of others.
    """
    kept = {name: set(_kept(block)) for name, block in graph.blocks.items()}
    keepers: defaultdict[str, set[str]] = defaultdict(set)
    for instance in graph.instances:
        block = graph.block_of(instance)
        outside = dict(zip(block.inputs, instance.inputs, strict=True))
        outside |= {value: instance.output(value) for value in block.outputs}
        for inner, outer in outside.items():
            if inner in kept[block.name]:
                keepers[outer].add(instance.name)
    shared = {outer for outer, names in keepers.items() if len(names) > 1}
    for instance in graph.instances:
        block = graph.block_of(instance)
        for inner, outer in zip(block.inputs, instance.inputs, strict=True):
            if outer in shared:
                kept[block.name].discard(inner)
        kept[block.name] -= {value for value in block.outputs if instance.output(value) in shared}
    return {
        name: {value: value for value in graph.blocks[name].values if value in kept[name]} for name in kept
    }


def _kept(block: Block) -> Collection[str]:
    """What is on the device in the forward and read in the backward."""
    made = {value for node in block.phase(Phase.FORWARD) for value in node.outputs}
    read = {value for node in block.phase(*_BACKWARD) for value in node.inputs}
    shown = {
        value
        for node in block.phase(Phase.FORWARD)
        if isinstance(node.operator, SplitChunks | JoinChunks)
        or any(block.values[out].role is Role.VIEW for out in node.outputs)
        for value in (*node.inputs, *node.outputs)
    }
    there = {*made, *block.inputs} & read
    return {
        value
        for value in there - shown
        if block.values[value].role is Role.ACTIVATION and block.values[value].place is MemoryPlace.DEVICE
    }


def offload_activations(block: Block, chosen: Collection[str], rule: OffloadRule) -> Block:
    """The block whose ``chosen`` values are offloaded between forward and backward."""
    values = dict(block.values)
    back = {value: f"{value}.back" for value in values if value in chosen}
    why = f"activations are kept on the {rule.place}"

    def out(value: str) -> list[Node]:
        return relocation_nodes(values, value, f"{value}.away", rule.place, rule, Phase.FORWARD, why)

    forward = [node for value in block.inputs if value in back for node in out(value)]
    for kernel in kernel_nodes(list(block.phase(Phase.FORWARD))):
        forward += kernel
        made = dict.fromkeys(value for node in kernel for value in node.outputs if value in back)
        forward += [copy for value in made for copy in out(value)]
    fetched = [
        copy
        for value, name in back.items()
        for copy in relocation_nodes(
            values, f"{value}.away", name, MemoryPlace.DEVICE, rule, Phase.FETCH, why
        )
    ]
    nodes: list[Node] = []
    for phase in Phase:
        if phase is Phase.FORWARD:
            nodes += forward
            continue
        nodes += fetched if phase is Phase.FETCH else ()
        for node in block.phase(phase):
            if phase in _BACKWARD:
                node = replace(node, inputs=tuple(back.get(value, value) for value in node.inputs))
            nodes.append(node)
    return replace(block, values=values, nodes=tuple(nodes))
