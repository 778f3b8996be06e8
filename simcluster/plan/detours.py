"""Copies that are left out because what they copy lies elsewhere now: a way to the device and back again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from simcluster.model import Block, Node, Phase, Place, Relocation


def without_detours(block: Block, leaving: Collection[str]) -> Block:
    """The block before its values that are ``leaving`` are taken from the device.

    In its end phase, an operator on the host that worked on a copy of one, or made it to be copied to the
    device, has it at hand there: it reads and makes the value itself.
    """
    names: dict[str, str] = {}
    nodes: list[Node] = []
    for node in block.nodes:
        if node.phase is Phase.END and isinstance(node.operator, Relocation):
            (source,), (target,) = node.inputs, node.outputs
            if source in leaving and node.operator.target is Place.HOST:
                names[target] = source
                continue
            if target in leaving and node.operator.source is Place.HOST:
                names[source] = target
                continue
        nodes.append(node)
    if not names:
        return block
    return replace(
        block,
        values={name: kind for name, kind in block.values.items() if name not in names},
        nodes=tuple(
            replace(
                node,
                inputs=tuple(names.get(value, value) for value in node.inputs),
                outputs=tuple(names.get(value, value) for value in node.outputs),
            )
            for node in nodes
        ),
    )
