"""What the entries of a communication stream do: few different things, many times over."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.engine.class_program import ClassProgram
from simcluster.engine.timed import NOTHING
from simcluster.program import Program


@dataclass(frozen=True, slots=True)
class EntryTypes:
    """The entries of one stream by what they do.

    ``places`` [kinds] are (code, instruction). By entry, ``which`` of these it does (``NOTHING``: it only
    waits), and its ``ordinals``: those who meet in it meet for so many-th time on this stream, from 0.
    """

    places: list[tuple[int, int]]
    which: list[int]
    ordinals: list[int]

    @classmethod
    def of(cls, program: Program, linked: ClassProgram, number: int) -> EntryTypes:
        """Those of the stream of this number of a class."""
        stream = linked.streams[number]
        per_step = len(linked.executions) // linked.steps
        codes = [run.code for run in linked.executions[:per_step]]
        numbers: dict[tuple[int, int], int] = {}
        which, ordinals = [], []
        counts: dict[tuple[str, ...], int] = {}
        for execution, index in zip(stream.execution.tolist(), stream.meeting.tolist(), strict=True):
            if index == NOTHING:
                which.append(NOTHING)
                ordinals.append(0)
                continue
            place = codes[execution % per_step], index
            axes = program.codes[place[0]].instructions[index].group
            before = counts.get(axes, 0)
            counts[axes] = before + 1
            which.append(numbers.setdefault(place, len(numbers)))
            ordinals.append(before)
        return cls(list(numbers), which, ordinals)
