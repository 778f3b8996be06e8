"""A run that cannot end, told: which stream is at what, and waits for whom."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.engine.linking.code_entries import NOTHING
from simcluster.engine.linking.linked_part import LinkedPart, LinkedStream

HEADING = "the program is deadlocked"
LATE = "the other members of its group"
STILL = "links that carry nothing"


def stuck(rank: int, part: LinkedPart, done: Sequence[int], arrived: Sequence[str | None]) -> list[str]:
    """One line per stuck stream of a rank.

    ``done``: per stream the entries that have ended; ``arrived``: what keeps the next entry from ending
    that has begun or is at a meeting.
    """
    lines = []
    for stream, ended, met in zip(part.streams, done, arrived, strict=True):
        if ended == len(stream):
            continue
        other = int(stream.wait_stream[ended])
        if met:
            reason = met
        elif other == NOTHING:
            reason = "nothing"
        else:
            awaited = part.streams[other]
            position = int(stream.wait_position[ended]) - 1
            reason = f"{_name(part, awaited, position)} on {awaited.name}"
        lines.append(f"rank {rank}, {stream.name}: {_name(part, stream, ended)} waits for {reason}")
    return lines


def _name(part: LinkedPart, stream: LinkedStream, position: int) -> str:
    index = int(stream.execution[position])
    if index < 0:
        return "a wait"
    execution = part.executions[index]
    code = part.program.codes[execution.code]
    instruction = int(stream.meeting[position])
    inner = code.instructions[instruction].name if instruction != NOTHING else code.name
    return f"{execution.instance}.{inner} ({execution.action})"
