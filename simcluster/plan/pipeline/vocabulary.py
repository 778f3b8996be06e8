"""Pass: splits the embedding and the output layer over all pipeline stages by vocabulary (arXiv 2411.05288).

Their blocks are cut in two. What uses the vocabulary becomes an instance on all stages, each of which holds a
slice; what is left, such as the last norm, stays where it was. What passes between the two is broadcast from
that stage, or reduced to it.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from simcluster.errors import PlanError
from simcluster.model import INPUT_LAYER, OUTPUT_LAYER, Block, Graph, Instance, Node, OneBarrier, Operator

PATH = "parallel.schedule.vocabulary"

LOCAL = ".local"
"""What the name of the part that stays on one stage ends with."""


class VocabularyMethod(enum.StrEnum):
    """How stages that share the vocabulary wait for one another."""

    TWO_BARRIERS = "two_barriers"
    """Algorithm 1 of the paper (Vocab-1): one barrier between the passes S and T, one behind T."""
    INTERLACED = "interlaced"
    """As tensor parallelism: all stages work on one micro-batch at once, and wait for every collective."""


def spread_vocabulary(graph: Graph, operators: Sequence[str], method: str) -> Graph:
    """The placed graph whose embedding and output layer are on all stages.

    ``operators`` are the lookup and the product that makes logits, by full name. PlanError for a model of
    another form.
    """
    _check(graph, operators)
    blocks = dict(graph.blocks)
    instances: list[Instance] = []
    makers: dict[str, str] = {}
    """Graph value before -> after."""
    shared = dict(operator.split(".", 1) for operator in operators)
    for instance in graph.instances:
        bound = replace(instance, inputs=tuple(makers.get(value, value) for value in instance.inputs))
        if instance.name not in shared:
            instances.append(bound)
            continue
        block = graph.block_of(instance)
        for part in _parts(block, shared[instance.name], method):
            local = part.name.endswith(LOCAL)
            blocks[part.name] = part
            chunk = instance.chunk if local else OUTPUT_LAYER if block.loss else INPUT_LAYER
            inner = dict(zip(block.inputs, bound.inputs, strict=True))
            placed = replace(
                instance,
                name=f"{instance.name}{LOCAL}" if local else instance.name,
                block=part.name,
                chunk=chunk,
                inputs=tuple(inner.get(value) or makers[instance.output(value)] for value in part.inputs),
            )
            instances.append(placed)
            makers |= {instance.output(value): placed.output(value) for value in part.outputs}
    return replace(graph, blocks=blocks, instances=tuple(instances))


def _check(graph: Graph, operators: Sequence[str]) -> None:
    """PlanError for a model whose vocabulary is used otherwise than by one lookup and one output layer."""
    leave_out = "leave schedule.vocabulary out"
    if graph.ties:
        raise PlanError(
            "the embedding and the output layer are one tied parameter, which stages do not share yet",
            path=PATH,
            hint=f"write model.tied: false, or {leave_out}",
        )
    losses = [instance.name for instance in graph.instances if graph.block_of(instance).loss]
    ends = [operator.partition(".")[0] for operator in operators]
    if len(ends) != 2 or len(losses) != 1 or ends[1] != losses[0]:
        raise PlanError(
            "all stages share the vocabulary of a decoder with one embedding and one output layer only",
            path=PATH,
            hint=leave_out,
        )


def _parts(block: Block, operator: str, method: str) -> Iterator[Block]:
    """What is on one stage and what is on all, in the order of their forward."""
    shared = _shared(block, operator)
    sliced = [node for node in block.nodes if node.name in shared]
    others = [node for node in block.nodes if node.name not in shared]
    if method != VocabularyMethod.INTERLACED:
        sliced = [_waiting_once(node) for node in sliced]
    parts = [(block.name, sliced), *([(f"{block.name}{LOCAL}", others)] if others else [])]
    for name, nodes in parts[::-1] if block.loss else parts:
        yield _part(block, name, nodes)


def _shared(block: Block, operator: str) -> set[str]:
    """The operators on all stages: the lookup alone, or all from the logits on."""
    chosen = {operator}
    if block.loss:
        made = set(block.node(operator).outputs)
        for node in block.nodes:
            if not made.isdisjoint(node.inputs):
                chosen.add(node.name)
                made.update(node.outputs)
    return chosen


def _part(block: Block, name: str, nodes: Sequence[Node]) -> Block:
    """The block of some of the nodes, which gets from others what these make."""
    made = {value for node in nodes for value in node.outputs}
    used = made | {value for node in nodes for value in node.inputs}
    here = {node.name for node in nodes}
    elsewhere = {value for node in block.nodes if node.name not in here for value in node.inputs}
    given = (*block.feeds, *block.parameters)

    def kept(values: Collection[str]) -> tuple[str, ...]:
        return tuple(value for value in values if value in used)

    return replace(
        block,
        name=name,
        feeds=kept(block.feeds),
        inputs=tuple(value for value in block.values if value in used - made and value not in given),
        outputs=tuple(value for value in block.values if value in made & {*block.outputs, *elsewhere}),
        parameters=kept(block.parameters),
        values={value: kind for value, kind in block.values.items() if value in used},
        nodes=tuple(nodes),
        loss=block.loss if block.loss in made else None,
    )


def _waiting_once(node: Node) -> Node:
    """The node with its statistics put together once, if it has any."""
    assert isinstance(node.operator, Operator)
    return replace(node, operator=node.operator.rewrite(OneBarrier()) or node.operator)
