"""Peak memory of many classes that run one part, without sorting the allocations of each.

What a class holds when an allocation happens is the sum of all rows of its account that are not later. For
most rows the kernels between which they lie already say whether they are; only for the others are times
compared, by class. And only allocations at which the peak can be at all are looked at: those that could hold
as much as some other certainly does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.memory_usage.allocation_log import AllocationLog
from simcluster.analysis.memory_usage.event_bounds import bounds
from simcluster.engine import GroupTiming

Ints = NDArray[np.int64]


MOST_KEPT = 2**24
"""Times of rows that are kept at once: 128 MB."""


@dataclass(frozen=True)
class PeakContents:
    """The allocations alive at a peak as rows, and the classes (columns) that have this peak."""

    rows: Ints
    columns: Ints


@dataclass(frozen=True)
class GroupPeaks:
    """By column: the peak in bytes, when it is first reached (ns), and what is held then.

    ``exceeded`` is when more than the capacity is first held, -1 if never.
    """

    total: Ints
    time: Ints
    exceeded: Ints
    contents: Sequence[PeakContents]


def find_group_peaks(account: AllocationLog, timing: GroupTiming, capacity: int) -> GroupPeaks:
    """The peaks of the classes of a group."""
    return _Peaks(account, timing, capacity).run()


@dataclass
class _Peaks:
    account: AllocationLog
    timing: GroupTiming
    capacity: int
    rows: dict[int, Ints] = field(default_factory=dict)

    def run(self) -> GroupPeaks:
        account, sizes = self.account, self.account.sizes
        low, high = self.ticks = bounds(self.timing).of(self.timing.group.part, account.numbers)
        self.low, self.high = account.decisive(low), account.decisive(high)
        self.allocations = np.flatnonzero(sizes > 0)
        most, least = self._limits()
        chosen = self._in_order(self.allocations[most >= least.max()])
        total, time, which = self._highest(chosen)
        contents = list(self._contents(which))
        exceeded = np.full(len(total), -1, dtype=np.int64)
        if total.max() > self.capacity:
            certain = least > self.capacity
            until = self.high[self.allocations[certain]].min() if certain.any() else self.high.max()
            over = (most > self.capacity) & (self.low[self.allocations] <= until)
            over = self._in_order(self.allocations[over])
            exceeded = self._exceeded(over)
        return GroupPeaks(total, time, exceeded, contents)

    def _in_order(self, allocations: Ints) -> Ints:
        """Allocations by the kernels around them: neighbours ask for the times of the same rows."""
        return np.asarray(allocations[np.argsort(self.low[allocations], kind="stable")])

    def _exceeded(self, over: Ints) -> Ints:
        """By column when more than the capacity is first held at one of some allocations, -1 if never."""
        exceeded = np.full(self._width, -1, dtype=np.int64)
        for row in over.tolist():
            when = np.where(self._level(row) > self.capacity, self._time(row), -1)
            exceeded = np.where((when >= 0) & ((exceeded < 0) | (when < exceeded)), when, exceeded)
        return exceeded

    def _limits(self) -> tuple[Ints, Ints]:
        """Per allocation the most and the least that any class can hold at it."""
        sizes, low, high = self.account.sizes, self.low, self.high
        allocated, drops = self.allocations, np.flatnonzero(sizes < 0)
        starts, ends = low[allocated], high[allocated]
        # An allocation itself is there, whatever its bounds.
        own = np.where(ends > starts, sizes[allocated], 0)
        most = _until(low[allocated], sizes[allocated], ends) + _until(high[drops], sizes[drops], starts)
        least = (
            _until(high[allocated], sizes[allocated], starts) + own + _until(low[drops], sizes[drops], ends)
        )
        return most, least

    def _unsure(self, row: int) -> Ints:
        """The rows of which only times say whether they are later than an allocation."""
        return np.flatnonzero((self.low <= self.high[row]) & (self.high > self.low[row]))

    def _level(self, row: int) -> Ints:
        """What every column holds at an allocation."""
        sizes = self.account.sizes
        level = np.full(self._width, int(sizes[self.high <= self.low[row]].sum()), dtype=np.int64)
        now = self._time(row)
        for other in self._unsure(row).tolist():
            level += sizes[other] * (self._time(other) <= now)
        return level

    def _highest(self, chosen: Ints) -> tuple[Ints, Ints, Ints]:
        """By column the highest level, when it is first reached, and at which allocation."""
        total, time, which = (np.full(self._width, -1, dtype=np.int64) for _ in range(3))
        for row in chosen.tolist():
            level, now = self._level(row), self._time(row)
            better = (level > total) | ((level == total) & (now < time))
            total, time = np.where(better, level, total), np.where(better, now, time)
            which[better] = row
        return total, time, which

    def _contents(self, which: Ints) -> Sequence[PeakContents]:
        contents = []
        for row in np.unique(which).tolist():
            columns = np.flatnonzero(which == row)
            certain, unsure = np.flatnonzero(self.high <= self.low[row]), self._unsure(row)
            now = self._time(row)[columns]
            there = np.array([self._time(other)[columns] <= now for other in unsure.tolist()], dtype=np.bool_)
            there = there.reshape(len(unsure), len(columns))
            kinds, of = np.unique(there, axis=1, return_inverse=True)
            for number in range(kinds.shape[1]):
                rows = np.sort(np.concatenate([certain, unsure[kinds[:, number]]]))
                contents.append(PeakContents(rows, columns[of.reshape(-1) == number]))
        return contents

    # -- times --------------------------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        return len(self.timing.group.indices)

    def _time(self, row: int) -> Ints:
        """When every column comes to a row."""
        if row not in self.rows:
            if len(self.rows) * self._width > MOST_KEPT:
                self.rows.clear()
            first, *others = self._deciding(row)
            times = self._moment(first)
            join = np.maximum if self.account.latest[row] else np.minimum
            for moment in others:
                times = join(times, self._moment(moment))
            self.rows[row] = times
        return self.rows[row]

    def _deciding(self, row: int) -> list[int]:
        """The moments of a row that can be its latest, or its earliest."""
        moments = self.account.moments_of(row)
        low, high = self.ticks[0][moments], self.ticks[1][moments]
        if self.account.latest[row]:
            able = (high > self.low[row]) | (low == self.low[row])
        else:
            able = (low < self.high[row]) | (high == self.high[row])
        return [int(moment) for moment in moments[able]]

    def _place(self, moment: int) -> tuple[int, int, int, int, int]:
        """(stream, entry, code, start, end or arrival, instruction) of a moment."""
        numbers, part = self.account.numbers, self.timing.group.part
        code = max(
            (code for code in numbers.first if numbers.first[code] <= moment), key=numbers.first.__getitem__
        )
        width, count = numbers.instructions[code], len(numbers.executions[code])
        kind, inside = divmod(moment - numbers.first[code], width * count)
        nth, instruction = divmod(inside, width)
        timed = part.codes[code]
        stream = self._streams[timed.streams[int(timed.stream_of[instruction])]]
        base = int(part.untimed.bases[numbers.executions[code][nth], stream])
        return stream, base + int(timed.entry[instruction]), code, kind, instruction

    @cached_property
    def _streams(self) -> Mapping[str, int]:
        return {stream.name: number for number, stream in enumerate(self.timing.group.part.untimed.streams)}

    def _moment(self, moment: int) -> Ints:
        """The times of a moment by column."""
        if moment == self.account.numbers.zero:
            return np.zeros(self._width, dtype=np.int64)
        stream, entry, code, kind, instruction = self._place(moment)
        group = self.timing.group
        if stream != group.part.compute:
            times_of_kind = (self.timing.starts, self.timing.ends, self.timing.arrivals)[kind]
            return np.asarray(times_of_kind[stream][entry])
        timed = group.part.codes[code]
        together = np.flatnonzero(
            (timed.stream_of == timed.stream_of[instruction]) & (timed.entry == timed.entry[instruction])
        )
        before = together[together <= instruction] if kind == 1 else together[together < instruction]
        times: Ints = self.timing.starts[stream][entry] + group.priced(code).duration[before].sum(axis=0)
        columns, kernel = self._slowed(entry)
        if len(before) and len(columns):
            times[columns] = self._kernel_ends[kernel + len(before) - 1]
        return times

    def _slowed(self, entry: int) -> tuple[Ints, Ints]:
        """The columns in which communication slows a segment, and the number of its first kernel there."""
        entries, columns, first = self._slowed_entries
        own = slice(*np.searchsorted(entries, [entry, entry + 1]).tolist())
        return columns[own], first[own]

    @cached_property
    def _slowed_entries(self) -> tuple[Ints, Ints, Ints]:
        """All such segments, by entry: their entries, columns and first kernels."""
        slowed = self.timing.slowed
        nothing = np.zeros(0, dtype=np.int64)
        entries = np.concatenate([nothing, *(segments.entries for segments in slowed.values())])
        columns = np.repeat(
            np.array(list(slowed), dtype=np.int64), [len(segments.entries) for segments in slowed.values()]
        )
        sizes = np.concatenate([nothing, *(segments.sizes for segments in slowed.values())])
        order = np.argsort(entries, kind="stable")
        return entries[order], columns[order], (np.cumsum(sizes) - sizes)[order]

    @cached_property
    def _kernel_ends(self) -> Ints:
        slowed = self.timing.slowed.values()
        return np.concatenate([np.zeros(0, dtype=np.int64), *(segments.kernel_ends for segments in slowed)])


def _until(ticks: Ints, sizes: Ints, at: Ints) -> Ints:
    """Per element of ``at`` the sum of the sizes whose tick is not larger."""
    order = np.argsort(ticks, kind="stable")
    sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes[order])])
    return sums[np.searchsorted(ticks[order], at, side="right")]
