"""Pass: adds parameter gradients to their accumulation buffer by a kernel of its own.

In the ideal profile the kernel that computes a weight gradient adds it to the buffer (Megatron's gradient
accumulation fusion). Where a framework's kernel does not, it writes the gradient in the compute format, and
one more kernel reads both and writes the sum; it may first be cast by another one. A collective is no such
kernel: what it receives is added on arrival, in the format in which it was sent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Literal

from simcluster.model import (
    Accumulate,
    Block,
    Cast,
    Graph,
    Instance,
    Node,
    Operator,
    Phase,
    Role,
    TensorType,
    Value,
)
from simcluster.work import DType

ALL: Literal["all"] = "all"
"""Every operator family accumulates in its own kernel."""


def accumulate(
    graph: Graph,
    families: Literal["all"] | Collection[str],
    compute: DType,
    *,
    casts: bool = False,
    chosen: Mapping[str, frozenset[str]] | None = None,
) -> Graph:
    """The graph in which only operators of ``families`` accumulate gradients in their own kernel.

    Gradients of all others are in ``compute`` until they are added, or with ``casts`` until they are cast to
    their buffer's format, which is added then. ``chosen``: instance -> the parameters of its block that this
    is about, if not about all: those whose gradients are not scattered, which adds them.
    """
    if families == ALL:
        return graph
    if chosen is None:
        return graph.with_blocks(
            {
                name: _accumulating(block, block.parameters, families, compute, casts)
                for name, block in graph.blocks.items()
            }
        )

    def rewrite(block: Block, instance: Instance) -> Block:
        return _accumulating(block, chosen[instance.name], families, compute, casts)

    return graph.specialised(
        chosen, rewrite, lambda names, every: f" adds {' '.join(sorted(names))}" if len(every) > 1 else ""
    )


def _accumulating(
    block: Block, chosen: Collection[str], families: Collection[str], compute: DType, casts: bool
) -> Block:
    buffers = {block.gradients[name] for name in chosen if name in block.gradients}
    values = dict(block.values)
    nodes: list[Node] = []
    for node in block.nodes:
        adds_itself = not isinstance(node.operator, Operator) or node.operator.family in families
        if node.phase is not Phase.BACKWARD or adds_itself or buffers.isdisjoint(node.outputs):
            nodes.append(node)
            continue
        # An operator that reads one parameter twice (a norm's scale as its bias) makes two terms of a buffer.
        outputs = list(node.outputs)
        adding: list[Node] = []
        for place, buffer in enumerate(node.outputs):
            if buffer in buffers:
                again = node.outputs[:place].count(buffer)
                name = f"{node.name}.{buffer}" + (f".{again}" if again else "")
                outputs[place] = f"{name}.term"
                kind = TensorType(values[buffer].type.shape, compute)
                term = outputs[place]
                values[term] = Value(kind, Role.GRADIENT, values[buffer].layout)
                if casts and compute is not (target := values[buffer].type.dtype):
                    same = f"{name}.cast"
                    values[same] = replace(values[buffer], role=Role.GRADIENT)
                    cast = Cast.of(kind, target)
                    adding.append(Node(same, cast, (term,), (same,), Phase.BACKWARD, origin=node.source))
                    term = same
                adding.append(_adding(node, f"{name}.accumulate", term, buffer, values))
        nodes += [replace(node, outputs=tuple(outputs)), *adding]
    return replace(block, values=values, nodes=tuple(nodes))


def _adding(node: Node, name: str, term: str, buffer: str, values: dict[str, Value]) -> Node:
    labels = tuple(f"dim{index}" for index in range(len(values[buffer].type.shape)))
    operator = Accumulate(labels)
    return Node(name, operator, (term,), (buffer,), Phase.BACKWARD, origin=node.source)
