"""A run that cannot end, told: which stream is at what, and waits for whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from simcluster.engine.linking import NOTHING, LinkedPart, LinkedStream
from simcluster.engine.pricing.priced_classes import Communication, PricedClasses
from simcluster.errors import SimulationError
from simcluster.program import StepGate


class _StuckStream(NamedTuple):
    """A stream of a class, told by its rank, that has not ended: how many entries have, and the communication
    that it is at; or the stream that it waits for, and how many entries of that must have ended.
    """

    rank: int
    column: int
    part: LinkedPart
    number: int
    ended: int
    at: Communication | tuple[int, int]


def deadlock_error(classes: PricedClasses, done: Sequence[Sequence[int]]) -> SimulationError:
    """One line per stuck stream, where nothing happens any more: what it is at and what it waits for.

    By class and stream ``done`` entries have ended. Whoever could go on has, so this says all.
    """
    stuck = list(_stuck_streams(classes, done))
    arrived = Counter(one.at.met[one.column][0] for one in stuck if isinstance(one.at, Communication))
    lines = []
    for rank, column, part, number, ended, at in stuck:
        stream = part.streams[number]
        if not isinstance(at, Communication):
            awaited = part.streams[at[0]]
            reason = f"{_name(part, awaited, at[1] - 1)} on {awaited.name}"
        elif (gates := at.of_gates(column)) and gates.waits:
            which = stream.kind_of
            step = int(np.count_nonzero(which[:ended] == which[ended])) - gates.steps_ago
            counted = _counted(classes, done, gates.waits, step)
            reason = f"gate '{gates.waits}', which has counted {counted} of {gates.count}"
        else:
            who, size = at.met[column]
            late = arrived[who] < size
            reason = "the other members of its group" if late else "links that carry nothing"
        lines.append(f"rank {rank}, {stream.name}: {_name(part, stream, ended)} waits for {reason}")
    return SimulationError("the program is deadlocked", *lines)


def _stuck_streams(classes: PricedClasses, done: Sequence[Sequence[int]]) -> Iterator[_StuckStream]:
    for index, (group, column) in enumerate(classes.place_of):
        part = classes.groups[group].part
        for number, (stream, ended) in enumerate(zip(part.streams, done[index], strict=True)):
            if ended == len(stream):
                continue
            waits = [wait for wait in part.waits[number][ended] if done[index][wait[0]] < wait[1]]
            at = waits[0] if waits else classes.communications(group, number)[stream.kind_of[ended]]
            rank = classes.workload.classes.representatives[index]
            yield _StuckStream(rank, column, part, number, ended, at)


def _counted(classes: PricedClasses, done: Sequence[Sequence[int]], gate: StepGate, step: int) -> int:
    """What a gate has counted in a step."""
    return sum(
        amount
        for index, (group, column) in enumerate(classes.place_of)
        for number, _, stream in classes.groups[group].part.communication()
        for kind, communication in enumerate(classes.communications(group, number))
        if (gates := communication.of_gates(column)) is not None
        if np.count_nonzero(stream.kind_of[: done[index][number]] == kind) > step
        for opened, amount in gates.opens
        if opened == gate
    )


def _name(part: LinkedPart, stream: LinkedStream, position: int) -> str:
    execution = part.executions[int(stream.execution[position])]
    code, instruction = part.program.codes[execution.code], stream.kinds[stream.kind_of[position]][1]
    inner = code.instructions[instruction].name if instruction != NOTHING else code.name
    return f"{execution.instance}.{inner} ({execution.action})"
