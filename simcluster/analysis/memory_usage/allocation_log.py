"""The allocations and releases of a stage, and the instructions that trigger each, without times.

It is the same for all classes of a stage. A release is at the latest of some moments (the ends of all who
read the buffer), an allocation at the earliest (the first of all who write it begins).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.timeline import EventIndex
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import GroupTiming
from simcluster.number_arrays import Ints, offsets, rows_of_lists
from simcluster.program import Category

Numbers = NDArray[np.integer[Any]]

OUTSIDE = ("runtime", "communicators")
"""Buffers outside the framework's allocator: those of the runtime and of the communication library."""

CATEGORIES = tuple(str(category) for category in Category)


@dataclass(frozen=True)
class AllocationLog:
    """Rows of a stage: +bytes at the earliest, or -bytes at the latest of some moments.

    They are in the order in which those of one time happen: releases first, then by buffer.
    """

    events: EventIndex
    """The events of instructions, by number."""
    moments: Ints
    """The numbers of the events at which rows happen, row after row."""
    first: Ints
    """Row -> where its moments begin in ``moments``; then where the last end."""
    kinds: Numbers
    """Row -> index of its category in ``CATEGORIES``."""
    sizes: Ints
    """Row -> bytes: positive when they are allocated, negative when they are released."""
    buffers: Numbers
    """Row -> number of its buffer's name."""
    micro_batches: Numbers
    """Row -> its micro-batch; -1 without one."""

    def chosen(self, rows: Ints) -> AllocationLog:
        """Only some of the rows."""
        _, places = rows_of_lists(self.first, rows)
        first = offsets(np.diff(self.first)[rows])
        columns: Any = (self.kinds, self.sizes, self.buffers, self.micro_batches)
        return AllocationLog(self.events, self.moments[places], first, *(column[rows] for column in columns))

    def decisive(self, values: Ints) -> Ints:
        """By row the latest or the earliest value of its moments; ``values`` are those of ``moments``."""
        if len(self.moments) == len(self.sizes):
            return values
        decisive, several, released = values[self.first[:-1]], np.diff(self.first) > 1, self.sizes < 0
        for further, own in ((np.maximum, released), (np.minimum, ~released)):
            rows = np.flatnonzero(own & several)
            owner, places = rows_of_lists(self.first, rows)
            further.at(decisive, rows[owner], values[places])
        return decisive

    def in_order(self, timing: GroupTiming, columns: slice) -> OrderedRows:
        """The rows of some classes of a group in the order of time, those of one time in that of the log."""
        times = np.ascontiguousarray(self.decisive(self.events.times(self.moments, timing, columns)).T)
        bits = len(self.sizes).bit_length()
        if times.size and int(times.max()) >> (63 - bits):
            order = np.argsort(times, axis=1, kind="stable")
            return OrderedRows(self, np.take_along_axis(times, order, axis=1), order)
        # Numbers are sorted faster than their places are. They come in few runs, which a stable sort merges.
        times <<= bits
        times |= np.arange(len(self.sizes))
        times.sort(axis=1, kind="stable")
        return OrderedRows(self, times >> bits, times & ((1 << bits) - 1))


@dataclass(frozen=True, eq=False)
class OrderedRows:
    """Rows of a log in the order of time, for some classes: their ``times`` and their ``numbers`` in the log,
    both [classes, rows].
    """

    log: AllocationLog
    times: Ints
    numbers: Ints

    @cached_property
    def sizes(self) -> Ints:
        """Bytes [classes, rows]."""
        return self.log.sizes.take(self.numbers)
