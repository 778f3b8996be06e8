"""Pass: groups of samples for batch statistics that are not synchronised: those of each data-parallel rank.

It comes before differentiation and strategies, so that one device computes the same: statistics are part of
the mathematics, and only their groups come from the plan (DESIGN 4.6).
"""

from __future__ import annotations

from dataclasses import replace

from simcluster.model import Block, Graph, GroupBatch, Node, Operator


def group_batch_statistics(graph: Graph, ways: int) -> Graph:
    """The graph whose operators compute statistics over each of ``ways`` equal parts of the batch."""
    if ways == 1:
        return graph
    return graph.with_blocks({name: _grouped(block, ways) for name, block in graph.blocks.items()})


def _grouped(block: Block, ways: int) -> Block:
    """The block; the shapes of statistics follow from their number."""
    values = dict(block.values)
    nodes: list[Node] = []
    for node in block.nodes:
        assert isinstance(node.operator, Operator)
        operator = node.operator.rewrite(GroupBatch(ways))
        if operator is not None:
            node = replace(node, operator=operator)
            kinds = operator.infer([values[value].type for value in node.inputs])
            for value, kind in zip(node.outputs, kinds, strict=True):
                values[value] = replace(values[value], type=kind)
        nodes.append(node)
    return replace(block, values=values, nodes=tuple(nodes))
