"""Pass: splits the backward into input gradients and weight gradients, for zero-bubble schedules (DESIGN
4.4).

Input gradients (action I) are what other stages wait for: every operator on a path to the gradient of a
block's input. Weight gradients (action W) are the rest; what they read stays allocated until they have run.
"""

from __future__ import annotations

from dataclasses import replace

from simcluster.model import Block, Graph, Node, Phase, Role
from simcluster.plan.recompute import SUFFIX


def split_backward(graph: Graph, *, shared: bool = False) -> Graph:
    """The graph whose weight gradients are in a phase of their own, ``Phase.WEIGHTS``; with ``shared`` those
    of instances on all stages alone.
    """
    wanted = {instance.block for instance in graph.instances if instance.on_all_stages or not shared}
    return graph.with_blocks(
        {name: _split(block) if name in wanted else block for name, block in graph.blocks.items()}
    )


def _split(block: Block) -> Block:
    backward = list(block.phase(Phase.BACKWARD))
    first = _first_half(block, backward)
    second = [replace(node, phase=Phase.WEIGHTS) for node in backward if node.name not in first]
    if not second:
        return block
    nodes: list[Node] = []
    left = len(backward)
    for node in block.nodes:
        if node.phase is not Phase.BACKWARD or node.name in first:
            nodes.append(node)
        left -= node.phase is Phase.BACKWARD
        if not left:
            nodes += second
            second = []
    return replace(block, nodes=tuple(nodes))


def _first_half(block: Block, backward: list[Node]) -> set[str]:
    """The backward nodes, by name, on a path to a gradient of the block's inputs; and with them what is
    computed again, which both halves may read, and what reads gathered weights. None without such a path.
    """
    outgoing = {block.gradients[value] for value in block.inputs if value in block.gradients}
    if not outgoing:
        return set()
    gathered = {name for name, value in block.values.items() if value.role is Role.GATHERED}
    first_half: set[str] = set()
    needed = set(outgoing)
    for node in reversed(backward):
        leads = not needed.isdisjoint(node.outputs)
        if leads or node.name.endswith(SUFFIX) or not gathered.isdisjoint(node.inputs):
            first_half.add(node.name)
            needed.update(node.inputs)
    return first_half
