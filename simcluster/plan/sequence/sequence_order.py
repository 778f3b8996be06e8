"""Passes: the order of tokens in sequences that are split over ranks, for causal load balance and ring
attention.

Causal attention that is split over its queries has unequal work, which the zigzag order balances. The order
comes before differentiation, so one device computes the same: only the order of tokens changes, and with it
the mask.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from simcluster.errors import PlanError
from simcluster.model import Block, Graph, Node, Operator, Reorder, RingTurns, Zigzag
from simcluster.plan.rules import SEQ


def balance_causal_order(graph: Graph, slices: int, path: str) -> Graph:
    """The graph on sequences in zigzag order, if ``slices`` of them had unequal causal work otherwise.

    PlanError at ``path`` if a sequence cannot be ordered so, or an operator does not support it.
    """
    if slices == 1 or not any(_gains(node, block) for block in graph.blocks.values() for node in block.nodes):
        return graph
    return graph.with_blocks(
        {
            name: replace(block, nodes=tuple(_ordered(node, block, slices, path) for node in block.nodes))
            for name, block in graph.blocks.items()
        }
    )


def to_ring_attention(graph: Graph, slices: int, path: str, *, masked: bool = False) -> Graph:
    """The graph with ring attention over ``slices`` of sequences; PlanError if no attention supports it.

    ``masked``: every turn computes all its scores and hides those that the causal mask does.
    """
    turning = partial(_turning, slices=slices, masked=masked, path=path)
    blocks = {
        name: replace(block, nodes=tuple(turning(node, block) for node in block.nodes))
        for name, block in graph.blocks.items()
    }
    if slices > 1 and blocks == graph.blocks:
        hint = "attention in one kernel does: a framework profile with attention: flash"
        raise PlanError("nothing in this model takes turns over parts of a sequence", path=path, hint=hint)
    return graph.with_blocks(blocks)


def _turning(node: Node, block: Block, slices: int, masked: bool, path: str) -> Node:
    length = _length(node, block)
    assert isinstance(node.operator, Operator)
    if length is None or slices == 1:
        return node
    try:
        operator = node.operator.rewrite(RingTurns(slices, length, masked))
    except ValueError as error:
        raise PlanError(f"{node.name}: {error}", path=path) from None
    if operator is None:
        return node
    if length % slices:
        raise PlanError(
            f"turns need equal parts: {length:,} tokens / {slices} ranks = {length / slices:g}", path=path
        )
    return replace(node, operator=operator)


def _length(node: Node, block: Block) -> int | None:
    """Tokens of the sequences that an operator works on."""
    assert isinstance(node.operator, Operator)
    shapes = [block.values[value].type.shape for value in (*node.inputs, *node.outputs)]
    return node.operator.dims().extents(shapes).get(SEQ)


def _gains(node: Node, block: Block) -> bool:
    """Whether an operator can be split over its sequence in an order, and not otherwise."""
    assert isinstance(node.operator, Operator)
    if SEQ not in dict(node.operator.dims().unsplittable):
        return False
    length = _length(node, block)
    assert length is not None
    other = node.operator.rewrite(Reorder(Zigzag(1, 2 * length)))
    return other is not None and SEQ not in dict(other.dims().unsplittable)


def _ordered(node: Node, block: Block, slices: int, path: str) -> Node:
    length = _length(node, block)
    if length is None:
        return node
    assert isinstance(node.operator, Operator)
    try:
        if node.operator.rewrite(Reorder(Zigzag(1, 2 * length))) is None:
            # It does not matter where tokens stand, nor whether what it has of them are whole slices.
            return node
    except ValueError as error:
        raise PlanError(f"{node.name}: {error}", path=path) from None
    if length % (2 * slices):
        raise PlanError(
            f"{2 * slices} chunks of equal length, two for each of {slices} ranks, do not make up sequences "
            f"of {length:,} tokens: {length} / {2 * slices} = {length / (2 * slices):g}",
            path=path,
            hint="the sequence length must be a multiple of twice the context ranks",
        )
    operator = node.operator.rewrite(Reorder(Zigzag(slices, length)))
    assert operator is not None
    return replace(node, operator=operator)
