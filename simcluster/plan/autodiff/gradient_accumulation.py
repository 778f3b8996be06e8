"""Pass: parameter gradients that a kernel of its own adds to their buffer.

The ideal kernel adds to the buffer itself. Where a framework's does not, it writes the gradient in the
compute format, and one more kernel reads both and writes the sum. A movement makes no gradient: what arrives
is added as it arrives, in the format in which it was sent.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Literal

from simcluster.model import Accumulate, Block, Graph, Node, Operator, Phase, Role, TensorType, Value
from simcluster.work import DType

ALL: Literal["all"] = "all"


def accumulate(graph: Graph, families: Literal["all"] | Collection[str], compute: DType) -> Graph:
    """The graph in which only operators of ``families`` add to gradient buffers themselves.

    Gradients that others make lie in ``compute`` until they are added.
    """
    if families == ALL:
        return graph
    return graph.with_blocks(
        {name: _accumulating(block, families, compute) for name, block in graph.blocks.items()}
    )


def _accumulating(block: Block, families: Collection[str], compute: DType) -> Block:
    buffers = {block.gradients[name] for name in block.parameters if name in block.gradients}
    values = dict(block.values)
    nodes: list[Node] = []
    for node in block.nodes:
        adds_itself = not isinstance(node.operator, Operator) or node.operator.family in families
        if node.phase is not Phase.BACKWARD or adds_itself or buffers.isdisjoint(node.outputs):
            nodes.append(node)
            continue
        terms = {out: f"{node.name}.{out}.term" for out in node.outputs if out in buffers}
        for buffer, term in terms.items():
            kind = values[buffer]
            values[term] = Value(TensorType(kind.type.shape, compute), Role.GRADIENT, kind.layout)
        nodes.append(replace(node, outputs=tuple(terms.get(out, out) for out in node.outputs)))
        nodes += [_adding(node, term, buffer, values) for buffer, term in terms.items()]
    return replace(block, values=values, nodes=tuple(nodes))


def _adding(node: Node, term: str, buffer: str, values: dict[str, Value]) -> Node:
    labels = tuple(f"dim{index}" for index in range(len(values[buffer].type.shape)))
    operator = Accumulate(labels)
    name = f"{node.name}.{buffer}.accumulate"
    return Node(name, operator, (term,), (buffer,), Phase.BACKWARD, origin=node.source)
