"""Removes copies between the device and offloaded values where only operators on the host use them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from simcluster.model import Block, MemoryPlace, Node, Relocation, Role


def elide_host_copies(block: Block, chosen: Collection[str]) -> Block:
    """The block without copies between its ``chosen`` nodes, which run on the host, and offloaded values."""
    near = {
        node.outputs[0]: node.inputs[0] for node, leg in _copies(block) if leg.target is MemoryPlace.DEVICE
    }
    left = dict(_left(block, chosen))
    values = dict(block.values)
    for source, target in left.items():
        # What several operators make together is added up wherever it lies.
        summed = values[source].role is Role.SUM and values[target].role is Role.ACTIVATION
        values[target] = replace(values[target], role=Role.SUM) if summed else values[target]
    nodes = [_direct(node, near, left) if node.name in chosen else node for node in block.nodes]
    nodes = [node for node in nodes if not (isinstance(node.operator, Relocation) and node.inputs[0] in left)]
    return replace(block, values=values, nodes=tuple(_needed(block, nodes)))


def _copies(block: Block) -> Iterator[tuple[Node, Relocation]]:
    for node in block.nodes:
        if isinstance(node.operator, Relocation):
            yield node, node.operator


def _left(block: Block, chosen: Collection[str]) -> Iterator[tuple[str, str]]:
    """What only operators on the host make, for a copy to the host alone; and what that makes of it."""
    for copy, leg in _copies(block):
        (source,), (target,) = copy.inputs, copy.outputs
        makers = {node.name for node in block.nodes if source in node.outputs}
        readers = [node.name for node in block.nodes if source in node.inputs]
        if leg.source is MemoryPlace.DEVICE and makers and makers <= set(chosen) and readers == [copy.name]:
            yield source, target


def _direct(node: Node, near: Mapping[str, str], left: Mapping[str, str]) -> Node:
    return replace(
        node,
        inputs=tuple(near.get(value, value) for value in node.inputs),
        outputs=tuple(left.get(value, value) for value in node.outputs),
    )


def _needed(block: Block, nodes: list[Node]) -> Iterator[Node]:
    """The nodes without copies to the device that nobody reads any more, nor what only these read."""
    read = {*block.outputs, *block.gradients.values()}
    kept = []
    for node in reversed(nodes):
        here = {
            name for name in node.outputs if block.values[name].role not in (Role.GATHERED, Role.ACTIVATION)
        }
        if isinstance(node.operator, Relocation) and not here and read.isdisjoint(node.outputs):
            continue
        read.update(node.inputs)
        kept.append(node)
    yield from reversed(kept)
