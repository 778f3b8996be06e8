"""Pass: recompute the forward of whole layers in their backward, keeping only what enters the layer.

The whole forward is run again, its collectives included, as Megatron's and PyTorch's checkpointing do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from simcluster.document.pattern import matches
from simcluster.model import Block, Graph, Node, Phase, Role

SUFFIX = ".recompute"


def recompute(graph: Graph, pattern: str, per_stage: int | None = None) -> Graph:
    """The graph in which every instance whose name matches ``pattern`` recomputes its forward.

    With ``per_stage`` only the first that many of each stage do.
    """
    blocks: dict[str, Block] = {}
    instances = []
    found: Counter[int] = Counter()
    for instance in graph.instances:
        block = graph.block_of(instance)
        wanted = matches(pattern, instance.name)
        found[instance.stage] += wanted
        if wanted and (per_stage is None or found[instance.stage] <= per_stage):
            name = f"{block.name}{SUFFIX}"
            if name not in blocks:
                blocks[name] = replace(_recomputing(block), name=name)
        else:
            name = block.name
            blocks.setdefault(name, block)
        instances.append(replace(instance, block=name))
    return replace(graph, blocks=blocks, instances=tuple(instances))


def _recomputing(block: Block) -> Block:
    # States are updated once: what is computed again is the same as before.
    states = set(block.states)
    forward = [node for node in block.phase(Phase.FORWARD) if states.isdisjoint(node.outputs)]
    made = {value for node in forward for value in node.outputs}

    def again(value: str) -> str:
        return f"{value}{SUFFIX}" if value in made else value

    copies = [_renamed(node, again, name=f"{node.name}{SUFFIX}") for node in forward]
    values = dict(block.values)
    # A recomputed loss must not add to the loss again.
    values.update({again(value): replace(block.values[value], role=Role.ACTIVATION) for value in made})
    nodes: list[Node] = []
    for node in block.nodes:
        if node.phase is Phase.BACKWARD:
            nodes.extend(copies)
            copies = []
            node = replace(node, inputs=tuple(again(value) for value in node.inputs))
        nodes.append(node)
    return replace(block, nodes=tuple(nodes), values=values)


def _renamed(node: Node, rename: Callable[[str], str], name: str) -> Node:
    return replace(
        node,
        name=name,
        inputs=tuple(rename(value) for value in node.inputs),
        outputs=tuple(rename(value) for value in node.outputs),
        phase=Phase.BACKWARD,
        origin=node.source,
    )
