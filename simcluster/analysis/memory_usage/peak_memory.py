"""Peak memory of the classes of a group.

The allocations of a class are put in the order of time; the peak is the highest sum of all up to one of them.
Of many classes not all rows of their log are put in order: bounds that hold for all classes say at which
allocations a peak can be at all, and which rows are certainly before or after these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from simcluster.analysis.memory_usage.allocation_log import CATEGORIES, AllocationLog, Numbers, OrderedRows
from simcluster.analysis.memory_usage.event_bounds import find_event_bounds
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import GroupTiming
from simcluster.number_arrays import Ints

MOST_SORTED = 2**18
"""Rows of all classes of a group up to which all are put in order."""

TOGETHER = 2**18
"""Rows of classes that are put in order at once: 10 MB."""

NO_PEAK = -(2**62)
"""What is taken to be held before a row at which no peak can be."""


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
    log: AllocationLog, timing: GroupTiming, capacity: int, in_order: Callable[[int], OrderedRows]
) -> Iterator[MemoryPeak]:
    """The peaks of the classes of a group; ``in_order`` gives all rows of one in the order of time."""
    count = len(timing.group.indices)
    if count * len(log.sizes) <= MOST_SORTED or count == 1:
        for column in range(count):
            yield from _peaks(in_order(column), capacity, None)
        return
    windows = _Windows.of(log, timing, capacity)
    few = log.chosen(windows.rows)
    step = max(1, TOGETHER // len(windows.rows))
    for begin in range(0, count, step):
        yield from _peaks(few.in_order(timing, slice(begin, begin + step)), capacity, windows)


def _peaks(ordered: OrderedRows, capacity: int, windows: _Windows | None) -> Iterator[MemoryPeak]:
    """The peaks of classes whose rows are in order, all of them or those in ``windows``."""
    held = np.cumsum(ordered.sizes, axis=1)
    if windows is not None:
        held += np.append(windows.before.sum(axis=1), NO_PEAK)[windows.which][ordered.numbers]
    for column, top in enumerate(held.argmax(axis=1).tolist()):
        until, level, times = (column, slice(top + 1)), held[column], ordered.times[column]
        rows, window = ordered.numbers[until], 0
        by_category = _sums(ordered.log.kinds[rows], ordered.sizes[until], (len(CATEGORIES),))
        if windows is not None:
            window = int(windows.which[rows[-1]])
            by_category += windows.before[window]
        over = int(times[np.argmax(level > capacity)]) if level[top] > capacity else -1
        alive = partial(_alive, rows, windows, window)
        yield MemoryPeak(int(level[top]), int(times[top]), over, by_category, alive)


def _alive(rows: Ints, windows: _Windows | None, window: int) -> Ints:
    """The rows of a whole log up to a peak, from those that were put in order."""
    if windows is None:
        return rows
    return np.concatenate([np.flatnonzero(windows.since <= window), windows.rows[rows]])


@dataclass(frozen=True)
class _Windows:
    """Spans of time in which peaks of the classes of a group can be, in their order.

    ``rows`` are those that are in any of them, of a log, and ``which`` is the one of each if a peak can be at
    it, -1 if none can. ``since`` has by row of the log, of all others, the first window that it is before;
    ``before`` what these hold [windows, categories].
    """

    rows: Ints
    which: Ints
    since: Ints
    before: Ints

    @classmethod
    def of(cls, log: AllocationLog, timing: GroupTiming, capacity: int) -> _Windows:
        """Those that decide on the peaks, and on when they exceed the capacity."""
        low, high = (log.decisive(ticks[log.moments]) for ticks in find_event_bounds(log.events, timing))
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
        # Of peaks whose bounds overlap the windows are one.
        order = np.argsort(low[peaks], kind="stable")
        first, last = low[peaks][order], np.maximum.accumulate(high[peaks][order])
        begins = np.flatnonzero(np.append(True, first[1:] > last[:-1]))
        first, last = first[begins], last[np.append(begins[1:], len(last)) - 1]
        nearest = np.minimum(np.searchsorted(last, low), len(last) - 1)
        inside = (low <= last[nearest]) & (high >= first[nearest])
        since = np.where(inside, len(first), np.searchsorted(first, high, side="right"))
        shape = len(first) + 1, len(CATEGORIES)
        held = _sums(since * shape[1] + log.kinds, log.sizes, shape)
        before = np.cumsum(held, axis=0)[:-1]
        which = np.full(len(low), -1)
        which[peaks] = nearest[peaks]
        rows = np.flatnonzero(inside)
        return cls(rows, which[rows], since, before)


def _sums(numbers: Numbers, sizes: Ints, shape: tuple[int, ...]) -> Ints:
    """Sums of sizes by number."""
    # Those of floats are exact here: less than 2^53 bytes are held at any row.
    sums = np.bincount(numbers, weights=sizes, minlength=math.prod(shape)).astype(np.int64)
    return sums.reshape(shape)


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
