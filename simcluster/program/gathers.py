"""Weights that are gathered together, where the scenario gives sizes for it (``fusion.all_gather``).

A bucket is a block of its own, made of the gathers of its weights as the layers' blocks have them: first
steps together, then second steps, equal movements of one step as one collective. What it gathers lives as
long as it would if its layer gathered it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from simcluster.layout import Mesh, Movement
from simcluster.model import Block, Graph, Instance, Node, Phase, Value
from simcluster.model.operators.cast import Cast
from simcluster.plan.conduct import Buckets, Fusion
from simcluster.plan.fusion_ids import ALONE
from simcluster.program.buckets import SINGLE, Naming, step_by_step
from simcluster.program.instruction import Scope
from simcluster.program.lower import gathered_once, local_type, scopes

CASTS = "casts"
"""The kernel that casts the shards of a bucket before they travel."""


_NAMES = {Phase.BEGIN: "gathers", Phase.GATHER: "unit_gathers", Phase.REGATHER: "unit_regathers"}


@dataclass(frozen=True, slots=True)
class GatherBucket:
    """The gathers of some weights as a block; its values are called as their buffers in the stage.

    ``scopes`` say how long each of them lives; ``first`` is the instance that needs one of them first.
    """

    block: Block
    scopes: Mapping[str, Scope]
    first: str


@dataclass(frozen=True, slots=True)
class _Part:
    """The steps in which one weight is gathered; ``key`` is equal for those that may travel together."""

    instance: str
    nodes: tuple[Node, ...]
    key: tuple[object, ...]
    num_bytes: int
    alone: bool


def gather_buckets(
    graph: Graph, instances: Sequence[Instance], phase: Phase, fusion: Fusion, mesh: Mesh, naming: Naming
) -> list[GatherBucket]:
    """The buckets of a stage in the order in which they are needed; ``instances`` in that of their use.

    Only weights of one number format, gathered in the same steps over the same groups, and with one fusion
    id are in one bucket. Sizes are those of the gathered weights.
    """
    assert fusion.all_gather is not None
    values: dict[str, Value] = {}
    lives: dict[str, Scope] = {}
    parts: list[_Part] = []
    for instance in instances:
        parts += _parts(graph, instance, phase, fusion, mesh, naming, values, lives)
    found: list[list[int]] = []
    sorted_by: dict[tuple[object, ...], list[int]] = {}
    for position, part in enumerate(parts):
        sorted_by.setdefault(part.key, []).append(position)
    for positions in sorted_by.values():
        rule: Buckets = SINGLE if parts[positions[0]].alone else fusion.all_gather
        filled = rule.fill([parts[position].num_bytes for position in positions])
        found += [[positions[index] for index in group] for group in filled]
    return [
        _bucket(f"{_NAMES[phase]}.{number}", [parts[position] for position in group], values, lives)
        for number, group in enumerate(sorted(found))
    ]


def _parts(
    graph: Graph,
    instance: Instance,
    phase: Phase,
    fusion: Fusion,
    mesh: Mesh,
    naming: Naming,
    values: dict[str, Value],
    lives: dict[str, Scope],
) -> Iterator[_Part]:
    """The gathers of an instance by weight, in the order of its block; the backward uses the last first."""
    block = graph.block_of(instance)
    own = scopes(block)
    for chain in _chains(block, phase)[:: -1 if phase is Phase.REGATHER else 1]:
        held = [value for node in chain for value in (*node.inputs, *node.outputs)]
        names = {value: naming(instance.name, value) for value in held}
        values.update({name: block.values[value] for value, name in names.items()})
        lives.update({name: own[value] for value, name in names.items()})
        ends = (chain[0].inputs[0], chain[-1].outputs[0])
        parameter = next(value for value in ends if value in block.parameters)
        number = fusion.id_of(graph.canonical(f"{instance.name}.{parameter}"))
        moved = tuple(node.operator for node in chain if _is_collective(node))
        whole = block.values[ends[1]]
        yield _Part(
            instance.name,
            tuple(_renamed(node, instance.name, names) for node in chain),
            (moved, whole.type.dtype, number),
            local_type(whole, mesh).num_bytes,
            number == ALONE,
        )


def _renamed(node: Node, instance: str, names: Mapping[str, str]) -> Node:
    return replace(
        node,
        name=f"{instance}.{node.name}",
        inputs=tuple(names[value] for value in node.inputs),
        outputs=tuple(names[value] for value in node.outputs),
        kernel=CASTS if isinstance(node.operator, Cast) else "",
    )


def _chains(block: Block, phase: Phase) -> list[list[Node]]:
    """What is done one after another to gather each weight; what only follows a gather is no part of it."""
    chains: list[list[Node]] = []
    by_end: dict[str, list[Node]] = {}
    for node in gathered_once(block) if phase is Phase.BEGIN else block.phase(phase):
        chain = by_end.pop(node.inputs[0], None)
        if chain is None:
            chain = []
            chains.append(chain)
        chain.append(node)
        by_end[node.outputs[0]] = chain
    assert all(any(map(_is_collective, chain)) for chain in chains)
    return chains


def _is_collective(node: Node) -> bool:
    return isinstance(node.operator, Movement) and node.operator.is_collective


def _bucket(
    name: str,
    parts: Sequence[_Part],
    values: Mapping[str, Value],
    lives: Mapping[str, Scope],
) -> GatherBucket:
    nodes = tuple(step_by_step([part.nodes for part in parts]))
    held = {value: values[value] for node in nodes for value in node.inputs + node.outputs}
    block = Block(name, (), (), (), (), held, nodes)
    return GatherBucket(block, {value: lives[value] for value in held}, parts[0].instance)
