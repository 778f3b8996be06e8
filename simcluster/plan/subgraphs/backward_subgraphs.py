"""Pass: which backward operators, movements and casts belong to subgraphs.

The backward of a subgraph is one graph too, or each half of it. What moves or casts a tensor for its
operators, or moves their results, is part of it; gradients are added to accumulators outside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from simcluster.layout import Movement
from simcluster.model import Accumulate, Block, Cast, Fp8Cast, Graph, Node, Phase
from simcluster.plan.autodiff import GRADIENT_SUM

_GRAPHS = (Phase.FORWARD, Phase.BACKWARD, Phase.WEIGHTS)


def assign_backward_to_subgraphs(graph: Graph) -> Graph:
    """The graph in which every operator of forward and backward has its subgraph."""
    return graph.with_blocks({name: _enclosed(block) for name, block in graph.blocks.items()})


def _enclosed(block: Block) -> Block:
    pieces = {node.name: node.piece for node in block.nodes if node.piece}
    # Of an operator that is made of primitives, these have its name as their origin.
    pieces |= {node.source: node.piece for node in block.nodes if node.piece}
    if not pieces:
        return block
    sums = {f"{value}{GRADIENT_SUM}": value for value in block.values}
    piece_of = {node.name: _own(node, pieces) for node in block.phase(*_GRAPHS)}
    for phase in _GRAPHS:
        nodes = list(block.phase(phase))
        readers: defaultdict[str, list[Node]] = defaultdict(list)
        for node in nodes:
            for value in node.inputs:
                readers[value].append(node)
        makers = {value: node for node in nodes for value in node.outputs}
        for node in reversed(nodes):
            if _serves(node) and not piece_of[node.name]:
                theirs = {piece_of[other.name] for value in node.outputs for other in readers[value]}
                piece_of[node.name] = theirs.pop() if len(theirs) == 1 else ""
        for node in nodes:
            if piece_of[node.name]:
                continue
            if _serves(node):
                theirs = {piece_of[makers[value].name] for value in node.inputs if value in makers}
                piece_of[node.name] = theirs.pop() if len(theirs) == 1 else ""
            elif node.name in sums:
                piece_of[node.name] = _summing(block, sums[node.name], piece_of)
    made = tuple(replace(node, piece=piece_of.get(node.name, "")) for node in block.nodes)
    return replace(block, nodes=made)


def _own(node: Node, pieces: Mapping[str, str]) -> str:
    """The piece of the forward operator that it is derived from."""
    return "" if isinstance(node.operator, Accumulate) else pieces.get(node.source, "")


def _serves(node: Node) -> bool:
    """Whether it only brings a tensor to others in another layout or format."""
    return isinstance(node.operator, Movement | Cast | Fp8Cast)


def _summing(block: Block, value: str, found: Mapping[str, str]) -> str:
    """The piece that adds the gradients of a value: the one that alone reads it."""
    theirs = {found[node.name] for node in block.phase(Phase.FORWARD) if value in node.inputs}
    return theirs.pop() if len(theirs) == 1 and value not in block.outputs else ""
