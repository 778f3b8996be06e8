"""The allocations and releases of a stage, and the instructions that trigger each, without times.

It is the same for all classes of a stage. A row's time is the latest of some moments (a release: the ends of
all who read the buffer), or the earliest (an allocation: the first of all who write it begins).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.engine import ClassProgram
from simcluster.model import MemoryPlace
from simcluster.program import Category, Program

Ints = NDArray[np.int64]
Numbers = NDArray[np.integer[Any]]

OUTSIDE = ("runtime", "communicators")
"""Buffers outside the framework's allocator: those of the runtime and of the communication library."""

CATEGORIES = tuple(str(category) for category in Category)


@dataclass(frozen=True)
class EventIndex:
    """Numbers for the starts, ends and arrivals of all instructions, code by code, and one for time 0.

    Of a code with E executions of I instructions: first E x I starts, then ends, then arrivals.
    """

    first: Mapping[int, int]
    executions: Mapping[int, Ints]
    instructions: Mapping[int, int]
    zero: int

    @classmethod
    def of(cls, program: Program, linked: ClassProgram) -> EventIndex:
        """The numbers of all events of a class."""
        first: dict[int, int] = {}
        executions = linked.by_code()
        instructions = {code: len(program.codes[code].instructions) for code in executions}
        total = 0
        for code, indices in executions.items():
            first[code] = total
            total += 3 * len(indices) * instructions[code]
        return cls(first, executions, instructions, total)


@dataclass(frozen=True)
class AllocationLog:
    """Rows of a stage: +bytes or -bytes at the latest or the earliest of some moments.

    They are in the order in which those of one time happen: releases first, then by buffer.
    """

    numbers: EventIndex
    """The moments: events of instructions by number."""
    moments: Ints
    """The numbers of the moments of all rows, row after row."""
    first: Ints
    """Row -> where its moments begin in ``moments``."""
    latest: NDArray[np.bool_]
    """Row -> whether it happens at the latest of its moments; at the earliest otherwise."""
    kinds: Numbers
    """Row -> index of its category in ``CATEGORIES``."""
    sizes: Ints
    """Row -> bytes: positive when they are allocated, negative when they are released."""
    buffers: Numbers
    """Row -> number of its buffer's name."""
    micro_batches: Numbers
    """Row -> its micro-batch; -1 without one."""

    def decisive(self, values: Ints) -> Ints:
        """Row -> the latest or the earliest value of its moments, of values by their numbers."""
        when = values[self.moments]
        if len(when) == len(self.first):
            return when
        latest, earliest = (join.reduceat(when, self.first) for join in (np.maximum, np.minimum))
        return np.asarray(np.where(self.latest, latest, earliest))

    def moments_of(self, row: int) -> Ints:
        """The different moments of a row, in their order."""
        return np.unique(np.split(self.moments, self.first[row : row + 2])[1])


def used_memory_places(program: Program) -> tuple[MemoryPlace, ...]:
    """Host memory and disks, as far as a Program holds anything there."""
    places = {slot.place for code in program.codes for slot in code.slots}
    places |= {resident.place for part in program.parts for resident in part.residents}
    return tuple(place for place in MemoryPlace if place in places and place is not MemoryPlace.DEVICE)
