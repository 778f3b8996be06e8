"""Pass: gives values of a local graph their layouts, and turns collectives into movements.

A hand-written graph has local shapes. Parameters, their gradients and feeds are parts of the reference
model's tensors, which the program describes; every other value belongs to one rank.
"""

from __future__ import annotations

from dataclasses import replace

from simcluster.layout import Layout
from simcluster.model import Block, Node, Phase, TensorType, Value
from simcluster.plan.manual.collective_operator import Collective, Mirror
from simcluster.plan.manual.tensor_parts import ReferenceParts


def assign_layouts(block: Block, reference_parts: ReferenceParts) -> Block:
    """The block with movements for collectives, and a layout for every value."""
    parts = {**reference_parts.feeds, **reference_parts.parameters}
    own = dict(parts)
    own |= {block.gradients[name]: parts[name] for name in block.parameters if name in block.gradients}
    values: dict[str, Value] = {}
    for name, value in block.values.items():
        held = own.get(name)
        if held is None:
            values[name] = replace(value, layout=Layout.replicated(len(value.type.shape)))
        else:
            kind = TensorType(held.whole.shape, value.type.dtype)
            values[name] = replace(value, type=kind, layout=held.layout)
    strategies = {node.name: node.strategy for node in block.nodes if node.phase is Phase.FORWARD}
    nodes = tuple(
        replace(_moved(node), strategy=strategies.get(node.source, node.strategy)) for node in block.nodes
    )
    return replace(block, values=values, nodes=nodes)


def _moved(node: Node) -> Node:
    """A collective as what it is."""
    if isinstance(node.operator, Mirror):
        return replace(node, operator=node.operator.view)
    if not isinstance(node.operator, Collective):
        return node
    why = "as the program says" if node.phase is Phase.FORWARD else f"the gradient of {node.origin}"
    return replace(node, operator=node.operator.movement, why=why)
