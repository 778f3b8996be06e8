"""The bytes that ranks send each other in a step: by the steps of the algorithms that collectives use."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from simcluster.cluster import Cluster, GroupPlacement
from simcluster.collectives import GroupExchange, Operation, Routine, algorithm_routine, group_site_of
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import Choices
from simcluster.number_arrays import Floats, Ints
from simcluster.program import (
    WITH_SERVER,
    Axes,
    CollectiveRequests,
    Instruction,
    InstructionKind,
    peer_is_next_stage,
    pipeline_pairs,
)
from simcluster.simulation.compose import BuiltScenario
from simcluster.simulation.traffic.link_traffic import meetings

MOST_CELLS = 64
"""Rows and columns of the matrix."""


@dataclass(frozen=True)
class RankTraffic:
    """Bytes per step between ranks, ``matrix[from, to]``; a row is ``ranks_per_cell`` ranks that follow one
    another. What stays among them is on the diagonal.
    """

    matrix: Floats
    ranks_per_cell: int


def bytes_between_ranks(built: BuiltScenario) -> RankTraffic:
    """Who sends how much to whom.

    What ranks send through a switch that reduces counts evenly to all others of the group. Unequal parts of
    an all-to-all count between those who have them for each other, whatever way they take.
    """
    num_ranks = built.placed.num_ranks
    size = 1
    while -(-num_ranks // size) > MOST_CELLS:
        size *= 2
    cells = np.arange(num_ranks) // size
    matrix = np.zeros((int(cells[-1]) + 1,) * 2)
    choices = Choices(
        built.classes, built.cluster, CollectiveRequests(built.program, built.plan.execution.algorithms)
    )
    bytes_of: defaultdict[tuple[int, Axes, Operation, str], float] = defaultdict(float)
    for index, instruction, runs in meetings(built):
        if instruction.action is InstructionKind.SEND:
            _add_transfers(built, index, instruction, runs, cells, matrix)
        elif instruction.action in WITH_SERVER:
            _add_server(built, index, instruction, runs, cells, matrix)
        elif instruction.parts is not None:
            _add_parts(built, index, instruction, runs, cells, matrix)
        elif instruction.action is InstructionKind.COLLECTIVE:
            operation = Operation(instruction.operation)
            key = index, instruction.group, operation, choices.of(index, instruction).algorithm
            bytes_of[key] += instruction.num_bytes * runs
    for (index, axes, operation, algorithm), amount in bytes_of.items():
        if algorithm == "none":
            continue
        placement = built.classes.groups[index, axes].placement
        own = cells[built.program.mesh.groups(axes)[_groups_like(built, index, axes)]]
        routine = algorithm_routine(algorithm, operation, placement, built.cluster)
        _add_routine(routine, own, placement, built.cluster, amount, matrix)
    return RankTraffic(matrix, size)


def _groups_like(built: BuiltScenario, index: int, axes: Axes) -> Ints:
    """The numbers of all groups over some axes that are of the kind in which a class meets."""
    groups = built.classes.groups
    kind = groups[index, axes].id
    alike = [(of, axes) in groups and groups[of, axes].id == kind for of in range(len(built.classes))]
    first = built.classes.of_rank[built.program.mesh.groups(axes)[:, 0]]
    return np.flatnonzero(np.array(alike)[first])


def _add_parts(
    built: BuiltScenario, index: int, instruction: Instruction, runs: int, cells: Ints, matrix: Floats
) -> None:
    """What the ranks of all groups have for each other, where that is not equal."""
    assert instruction.parts is not None
    members = built.program.mesh.groups(instruction.group)
    for number in _groups_like(built, index, instruction.group).tolist():
        parts, own = instruction.parts.of_number(number), cells[members[number]]
        sent = parts.counts * (parts.share * instruction.num_bytes * runs)
        np.fill_diagonal(sent, 0.0)
        np.add.at(matrix, (own[:, np.newaxis], own[np.newaxis]), sent)


def _add_transfers(
    built: BuiltScenario, index: int, instruction: Instruction, runs: int, cells: Ints, matrix: Floats
) -> None:
    """What all ranks of a class send along the pipeline."""
    program = built.program
    pairs = pipeline_pairs(program.mesh, program.stage_axis, ring=program.ring)
    src, dst = pairs.T if peer_is_next_stage(instruction.stream) else pairs[:, ::-1].T
    own = built.classes.of_rank[src] == index
    np.add.at(matrix, (cells[src[own]], cells[dst[own]]), float(instruction.num_bytes) * runs)


def _add_server(
    built: BuiltScenario, index: int, instruction: Instruction, runs: int, cells: Ints, matrix: Floats
) -> None:
    """What all ranks of a class push to a parameter server, or pull from it."""
    workers = cells[built.classes.of_rank == index]
    servers = np.full(len(workers), cells[instruction.server])
    pushed = instruction.action is InstructionKind.PUSH
    ways = (workers, servers) if pushed else (servers, workers)
    np.add.at(matrix, ways, float(instruction.num_bytes) * runs)


def _add_routine(
    routine: Routine,
    members: Ints,
    placement: GroupPlacement,
    cluster: Cluster,
    amount: float,
    matrix: Floats,
) -> None:
    """What the groups ``members`` [groups, n], given as cells, send in an algorithm of so many bytes."""
    members = members[:, group_site_of(placement, cluster).order]
    count, wide = members.shape[1], len(matrix)
    chunk = routine.cut.arrays / routine.cut.num_chunks * amount
    for step in routine.steps:
        sent = chunk * step.size * step.repeat
        if isinstance(step, GroupExchange):
            for row in step.groups:
                _add_exchange(members[:, row], sent, matrix)
            continue
        src, dst = step.sends()
        between = (src < count) & (dst < count)
        pairs = members[:, src[between]] * wide + members[:, dst[between]]
        matrix += sent * np.bincount(pairs.ravel(), minlength=wide * wide).reshape(wide, wide)
        for rank in src[(src < count) & (dst >= count)].tolist():
            others = np.delete(members, rank, axis=1)
            pairs = members[:, [rank]] * wide + others
            share = sent / max(1, count - 1)
            matrix += share * np.bincount(pairs.ravel(), minlength=wide * wide).reshape(wide, wide)


def _add_exchange(members: Ints, sent: float, matrix: Floats) -> None:
    """Everyone of each row of ``members`` [groups, q] sends as much to every other."""
    wide = len(matrix)
    for row in members:
        held = np.bincount(row, minlength=wide).astype(np.float64)
        matrix += sent * (np.outer(held, held) - np.diag(held))
