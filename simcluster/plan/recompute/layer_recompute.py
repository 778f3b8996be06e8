"""Pass: recomputes whole layers in their backward, from their inputs (full activation checkpointing).

The whole forward is run again, with its collectives, as checkpointing in Megatron and PyTorch does; or only
what the backward needs of it, as in MindSpore's graph, which leaves out the operators that make the layer's
output.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from simcluster.document import matches
from simcluster.errors import PlanError
from simcluster.model import Block, Graph, Instance, Node, Phase, Role
from simcluster.plan.recompute.selective_recompute import SUFFIX, recompute_in_block
from simcluster.plan.rules import check_patterns
from simcluster.plan.spec import PATH, Layers


def recomputed_layers(graph: Graph, layers: Layers) -> frozenset[str]:
    """The names of the layers that are recomputed whole.

    Numbers count those that stages share; where there are any, layers of multi-token prediction are
    recomputed as well, as Megatron-Core does. PlanError if numbers do not fit the stages, or a name fits no
    layer.
    """
    if layers in ("none", "auto"):
        return frozenset()
    every = [instance.name for instance in graph.instances if _is_computed(instance)]
    if layers == "all":
        return frozenset(every)
    named = () if isinstance(layers, int) else tuple(entry for entry in layers if isinstance(entry, str))
    if named:
        return frozenset(_named(named, every))
    first = _first_of_stages(graph, layers)
    shared = {name for names in _stages(graph) for name in names}
    return first.union(name for name in every if first and name not in shared)


def _first_of_stages(graph: Graph, layers: Layers) -> frozenset[str]:
    """The first layers of every stage, or of every chunk on it, by number."""
    stages = _stages(graph)
    if isinstance(layers, int):
        most = max(map(len, stages))
        if layers > most:
            raise PlanError(
                f"{layers} layers of each stage are recomputed, but no stage has more than {most}",
                path=f"{PATH}.layers",
                hint="write all",
            )
        return frozenset(name for names in stages for name in names[:layers])
    rows = [row for row in layers if isinstance(row, tuple)]
    if not rows:
        return frozenset(_counted(tuple(count for count in layers if isinstance(count, int)), stages))
    chunks = 1 + max(instance.chunk for instance in graph.instances)
    if len(rows) != chunks:
        several = f"{chunks} chunks" if chunks > 1 else "one chunk"
        raise PlanError(
            f"{len(rows)} lists of numbers, but every stage has {several} of layers",
            path=f"{PATH}.layers",
            hint="write one list with a number for each stage",
        )
    return frozenset(name for chunk, row in enumerate(rows) for name in _counted(row, _stages(graph, chunk)))


def _stages(graph: Graph, chunk: int | None = None) -> list[list[str]]:
    """The layers that stages share, of every stage, or of one chunk on it, in order."""
    layers: list[list[str]] = [[] for _ in range(1 + max(instance.stage for instance in graph.instances))]
    for instance in graph.instances:
        if instance.is_pipeline_layer and _is_computed(instance) and chunk in (None, instance.chunk):
            layers[instance.stage].append(instance.name)
    return layers


def _is_computed(instance: Instance) -> bool:
    """Whether it is a layer with weights of its own, not one on a later slice of sequences."""
    return instance.is_layer and not instance.first_slice


def _counted(counts: tuple[int, ...], stages: list[list[str]]) -> Iterator[str]:
    """The first layers of every stage."""
    if len(counts) != len(stages):
        raise PlanError(
            f"numbers of layers for {len(counts)} stages, but the mesh has {len(stages)}",
            path=f"{PATH}.layers",
        )
    for stage, (count, names) in enumerate(zip(counts, stages, strict=True)):
        if count > len(names):
            raise PlanError(
                f"stage {stage} has {len(names)} layers, so {count} of them cannot be recomputed",
                path=f"{PATH}.layers",
            )
        yield from names[:count]


def _named(patterns: tuple[str, ...], names: list[str]) -> Iterator[str]:
    """The layers with matching names."""
    check_patterns(patterns, names, "layer", f"{PATH}.layers.{{}}")
    return (name for name in names if any(matches(pattern, name) for pattern in patterns))


def recompute(
    graph: Graph, names: Collection[str], *, needed: bool = False, collectives: bool = True
) -> Graph:
    """The graph in which the instances of these names recompute their forward.

    ``needed``: only the part that their backward needs. Without ``collectives`` the results of collectives
    are saved instead.
    """

    def again(block: Block, instance: Instance) -> Block:
        if instance.weight_owner not in names:
            return block
        partly = needed or not collectives
        made = (
            recompute_in_block(block, _computed(block), collectives=collectives)
            if partly
            else _recomputing(block)
        )
        return replace(made, recomputed=True)

    chosen = {instance.name: instance.weight_owner in names for instance in graph.instances}
    return graph.specialised(chosen, again, lambda key, _: SUFFIX if key else "")


def _computed(block: Block) -> frozenset[str]:
    """The nodes of a forward that can run again: states are updated once, what reads them read the same."""
    states = set(block.states)
    return frozenset(node.name for node in block.phase(Phase.FORWARD) if states.isdisjoint(node.outputs))


def _recomputing(block: Block) -> Block:
    kept = _computed(block)
    forward = [node for node in block.phase(Phase.FORWARD) if node.name in kept]
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
