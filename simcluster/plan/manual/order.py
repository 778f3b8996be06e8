"""Whether all ranks agree on what they do together, found out before anything runs.

Every rank goes through its collectives in the order in which they are written, forward, backward and behind
the last micro-batch, and waits in each until all members of the group are there. Where they come to it with
different ones, or never, the program would hang or mix up tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from simcluster.errors import PlanError, Problem
from simcluster.layout import ROUTED, Mesh, Movement, unrooted
from simcluster.model import Block, Graph, Node, Phase, TensorType
from simcluster.plan.redistribute import routed_bytes

_WHEN = {Phase.FORWARD: "", Phase.BACKWARD: " in the backward", Phase.END: " behind the backward"}


@dataclass(frozen=True, slots=True)
class Meeting:
    """A collective as a rank comes to it: who has to come, and what all must agree on.

    ``alike`` are (what, value) pairs; ``path`` is where it was written.
    """

    name: str
    when: str
    members: tuple[int, ...]
    alike: tuple[tuple[str, str], ...]
    path: str

    def __str__(self) -> str:
        return f"'{self.name}'{self.when}"


def check_order(
    graph: Graph, part_of_rank: Sequence[int], mesh: Mesh, paths: Sequence[Mapping[str, str]]
) -> None:
    """PlanError that names ranks, operators and groups, if ranks do not meet in the same collectives."""
    blocks = [graph.block_of(instance) for instance in graph.instances]
    ranks = [_meetings(blocks[part], rank, mesh, paths[part]) for rank, part in enumerate(part_of_rank)]
    problem = _first_fault([list(each) for each in ranks])
    if problem is not None:
        raise PlanError(problem)


def _meetings(block: Block, rank: int, mesh: Mesh, paths: Mapping[str, str]) -> Iterator[Meeting]:
    """What a rank comes to, in order."""
    for node in block.nodes:
        if isinstance(node.operator, Movement) and node.operator.is_collective:
            yield _meeting(block, node, node.operator, rank, mesh, paths)


def _meeting(
    block: Block, node: Node, movement: Movement, rank: int, mesh: Mesh, paths: Mapping[str, str]
) -> Meeting:
    path = paths.get(node.source, "gradients" if node.phase is Phase.END else "operators")
    row = _row(mesh, movement.axes, rank)
    group = "+".join(map(unrooted, movement.axes))
    if row is None:
        raise PlanError(
            f"rank {rank} runs '{node.name}' ({movement.kind}), but is in no group '{group}'",
            path=path,
            hint="say with ranks which ranks run it, or give them a group",
        )
    alike = [("operation", str(movement.kind)), ("group", group)]
    if movement.kind in ROUTED:
        alike.append(("bytes", f"{routed_bytes(movement, mesh):,}"))
    else:
        values = [block.values[name] for name in (*node.inputs, *node.outputs)]
        shapes = [
            TensorType(value.layout.local_shape(value.type.shape, mesh), value.type.dtype)
            for value in values
            if value.layout is not None
        ]
        alike += [("size", str(shapes[0])), ("reduction", movement.reduction)]
        alike.append(("dims", f"{movement.dim} and {movement.to_dim}"))
    return Meeting(node.name, _WHEN.get(node.phase, ""), row, tuple(alike), path)


def _row(mesh: Mesh, axes: Sequence[str], rank: int) -> tuple[int, ...] | None:
    """The members of the group that a rank is in, in their order."""
    for members in mesh.groups(tuple(axes)).tolist():
        if rank in members:
            return tuple(members)
    return None


def _first_fault(ranks: Sequence[Sequence[Meeting]]) -> Problem | None:
    """The first place where ranks do not meet, or None if all get through."""
    at = [0] * len(ranks)
    ready = list(range(len(ranks)))
    while ready:
        rank = ready.pop()
        if at[rank] == len(ranks[rank]):
            continue
        here = ranks[rank][at[rank]]
        heads = {member: _head(ranks, at, member) for member in here.members}
        if any(head is None or head.members != here.members for head in heads.values()):
            continue
        for member, head in heads.items():
            assert head is not None
            difference = next(
                (pair for pair in zip(here.alike, head.alike, strict=False) if pair[0] != pair[1]), None
            )
            if difference is not None:
                return _disagreement(rank, here, member, head, difference)
        for member in here.members:
            at[member] += 1
        ready += here.members
    stuck = [rank for rank in range(len(ranks)) if at[rank] < len(ranks[rank])]
    return _wait(ranks, at, stuck[0]) if stuck else None


def _head(ranks: Sequence[Sequence[Meeting]], at: Sequence[int], rank: int) -> Meeting | None:
    """What a rank waits in."""
    return ranks[rank][at[rank]] if at[rank] < len(ranks[rank]) else None


def _disagreement(
    rank: int,
    here: Meeting,
    other: int,
    there: Meeting,
    difference: tuple[tuple[str, str], tuple[str, str]],
) -> Problem:
    (what, mine), (_, theirs) = difference
    group = dict(here.alike)["group"]
    return Problem(
        f"rank {rank} comes to {here} with {what} {mine}, rank {other} of its group '{group}' to {there} "
        f"with {what} {theirs}",
        here.path,
        "all members of a group do the same collectives in one order",
    )


def _wait(ranks: Sequence[Sequence[Meeting]], at: Sequence[int], first: int) -> Problem:
    """Who waits for whom, until somebody is met again or does not come at all."""
    told: list[str] = []
    seen: list[int] = []
    rank, here = first, ranks[first][at[first]]
    while rank not in seen:
        seen.append(rank)
        here = ranks[rank][at[rank]]
        late = next(
            member
            for member in here.members
            if (head := _head(ranks, at, member)) is None or head.members != here.members
        )
        group = dict(here.alike)["group"]
        told.append(f"rank {rank} waits in {here} over group '{group}' for rank {late}")
        if _head(ranks, at, late) is None:
            calls = len(ranks[late])
            told.append(f"which is through with all of its {calls} collectives and never comes")
            break
        rank = late
    else:
        told.append(f"and so in a circle: rank {rank} waits already")
    start = ranks[first][at[first]]
    return Problem("; ".join(told), start.path, "all members of a group do the same collectives in one order")
