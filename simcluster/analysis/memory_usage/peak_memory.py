"""Peak memory of the classes of a group.

The allocations of a class are put in the order of time; the peak is the highest sum of all up to one of them.
Of many classes not all rows of their log are put in order: bounds that hold for all classes say at which
allocations a peak can be at all, and which rows are certainly before or after these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.memory_usage.allocation_log import CATEGORIES, AllocationLog
from simcluster.analysis.memory_usage.event_bounds import event_bounds
from simcluster.engine import GroupTiming

Ints = NDArray[np.int64]

MOST_SORTED = 2**20
"""Rows of all classes of a group up to which all are put in order."""

TOGETHER = 2**18
"""Rows of classes that are put in order at once: 10 MB."""

NO_PEAK = -(2**62)
"""What is held before a row at which no peak can be."""


@dataclass(frozen=True)
class MemoryPeak:
    """The peak of a class in bytes, and when it is first reached (ns); ``exceeded`` is when more than the
    capacity is first held, -1 if never. ``rows`` gives the rows of the log that are held then, and
    ``by_category`` the bytes of each of ``CATEGORIES``.
    """

    total: int
    time: int
    exceeded: int
    by_category: Ints
    rows: Callable[[], Ints]


def find_peaks(
    log: AllocationLog, timing: GroupTiming, capacity: int, in_order: Callable[[int], tuple[Ints, Ints]]
) -> Iterator[MemoryPeak]:
    """The peaks of the classes of a group, in their order; ``in_order`` gives the times of all rows of one of
    them in order, and which these are.
    """
    count = len(timing.group.indices)
    if count * len(log.sizes) <= MOST_SORTED or count == 1:
        every = _PeakRows.every(log)
        for column in range(count):
            times, order = in_order(column)
            yield from every.peaks(times[None], order[None], capacity)
        return
    chosen = _PeakRows.possible(log, timing, capacity)
    few = log.chosen(chosen.rows)
    step = max(1, TOGETHER // len(chosen.rows))
    for begin in range(0, count, step):
        yield from chosen.peaks(*few.in_order(timing, slice(begin, begin + step)), capacity)


@dataclass(frozen=True)
class _PeakRows:
    """The ``rows`` of a log that are put in order, and by row the ``window`` of time in which it is if a peak
    can be at it; -1 if none can. ``since`` has the first window that other rows of the log are before.
    """

    log: AllocationLog
    rows: Ints
    window: Ints
    since: Ints

    @classmethod
    def every(cls, log: AllocationLog) -> _PeakRows:
        """All rows, in one window."""
        count = len(log.sizes)
        return cls(log, np.arange(count), np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.int64))

    @classmethod
    def possible(cls, log: AllocationLog, timing: GroupTiming, capacity: int) -> _PeakRows:
        """Those that decide on the peaks of the classes of a group, and on when they exceed the capacity."""
        low, high = (log.decisive(ticks[log.moments]) for ticks in event_bounds(log.events, timing))
        # The next kernel can start at the very time at which one ends.
        high += high & 1
        allocations = np.flatnonzero(log.sizes > 0)
        most, least = _limits(log.sizes, low, high, allocations)
        able = most >= least.max()
        if most.max() > capacity:
            certain = least > capacity
            until = high[allocations[certain]].min() if certain.any() else high.max()
            able |= (most > capacity) & (low[allocations] <= until)
        peaks = allocations[able]
        # Windows of ticks in which these are; those that overlap are one.
        order = np.argsort(low[peaks], kind="stable")
        first, last = low[peaks][order], np.maximum.accumulate(high[peaks][order])
        begins = np.flatnonzero(np.append(True, first[1:] > last[:-1]))
        first, last = first[begins], last[np.append(begins[1:], len(last)) - 1]
        nearest = np.minimum(np.searchsorted(last, low), len(last) - 1)
        inside = (low <= last[nearest]) & (high >= first[nearest])
        since = np.where(inside, len(first), np.searchsorted(first, high, side="right"))
        window = np.full(len(low), -1)
        window[peaks] = nearest[peaks]
        rows = np.flatnonzero(inside)
        return cls(log, rows, window[rows], since)

    @cached_property
    def _held_before(self) -> Ints:
        """Bytes by category that rows hold that are before a window [windows, categories]."""
        shape = int(self.window.max()) + 2, len(CATEGORIES)
        since = np.minimum(self.since, shape[0] - 1)
        return np.cumsum(_sums(since * shape[1] + self.log.kinds, self.log.sizes, shape), axis=0)[:-1]

    def peaks(self, times: Ints, order: Ints, capacity: int) -> Iterator[MemoryPeak]:
        """Those of some classes: the times of the rows in order [classes, rows], and which these are."""
        before = np.append(self._held_before.sum(axis=1), NO_PEAK)[self.window]
        held = before[order] + np.cumsum(self.log.sizes[self.rows][order], axis=1)
        tops = held.argmax(axis=1).tolist()
        for own, when, level, top in zip(order, times, held, tops, strict=True):
            over = int(when[np.argmax(level > capacity)]) if level[top] > capacity else -1
            window, rows = int(self.window[own[top]]), self.rows[own[: top + 1]]
            late = _sums(self.log.kinds[rows], self.log.sizes[rows], (len(CATEGORIES),))

            def held_rows(window: int = window, rows: Ints = rows) -> Ints:
                return np.sort(np.concatenate([np.flatnonzero(self.since <= window), rows]))

            yield MemoryPeak(
                int(level[top]), int(when[top]), over, self._held_before[window] + late, held_rows
            )


def _sums(numbers: Ints, sizes: Ints, shape: tuple[int, ...]) -> Ints:
    """Sums of sizes by number."""
    # Those of floats are exact here: less than 2^53 bytes are held at any row.
    sums = np.bincount(numbers, weights=sizes, minlength=math.prod(shape))
    return sums.astype(np.int64).reshape(shape)


def _limits(sizes: Ints, low: Ints, high: Ints, allocations: Ints) -> tuple[Ints, Ints]:
    """Per allocation the most and the least that any class can hold at it."""
    drops = np.flatnonzero(sizes < 0)
    starts, ends = low[allocations], high[allocations]
    # An allocation itself is there, whatever its bounds.
    own = np.where(ends > starts, sizes[allocations], 0)
    most = _until(starts, sizes[allocations], ends) + _until(high[drops], sizes[drops], starts)
    least = _until(ends, sizes[allocations], starts) + own + _until(low[drops], sizes[drops], ends)
    return most, least


def _until(ticks: Ints, sizes: Ints, at: Ints) -> Ints:
    """Per element of ``at`` the sum of the sizes whose tick is not larger."""
    order = np.argsort(ticks, kind="stable")
    sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes[order])])
    return sums[np.searchsorted(ticks[order], at, side="right")]
