"""Peak memory of all classes of a sweep, without sorting the allocations of each.

What a class holds when an allocation happens is the sum of all rows of its account that are not later. For
most rows the kernels between which they lie already say whether they are; only for the others are times
compared, by class. And only allocations at which the peak can be at all are looked at: those that could hold
as much as some other certainly does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.memory_usage.allocation_log import AllocationLog
from simcluster.analysis.memory_usage.event_bounds import EventBounds, bounds
from simcluster.engine import NOTHING, Beside, Lane, kernels

Ints = NDArray[np.int64]


MOST_KEPT = 2**24
"""Times of rows that are kept at once: 128 MB."""


@dataclass(frozen=True)
class PeakContents:
    """The allocations alive at a peak as rows, and the classes (columns) that have this peak."""

    rows: Ints
    columns: Ints


@dataclass(frozen=True)
class StagePeaks:
    """By column: the peak in bytes, when it is first reached (ns), and what is held then.

    ``exceeded`` is when more than the capacity is first held, -1 if never.
    """

    total: Ints
    time: Ints
    exceeded: Ints
    contents: Sequence[PeakContents]


def find_stage_peaks(account: AllocationLog, lanes: Sequence[Lane], capacity: int) -> StagePeaks:
    """The peaks of the classes of one stage."""
    return _Peaks(account, lanes, bounds(lanes), capacity).run()


@dataclass
class _Peaks:
    account: AllocationLog
    lanes: Sequence[Lane]
    bounds: EventBounds
    capacity: int
    rows: dict[int, Ints] = field(default_factory=dict)
    slowed: dict[int, Ints] = field(default_factory=dict)

    def run(self) -> StagePeaks:
        account, sizes = self.account, self.account.sizes
        low, high = self.ticks = self.bounds.of(self.lanes, account.numbers)
        self.low, self.high = account.decisive(low), account.decisive(high)
        self.allocations = np.flatnonzero(sizes > 0)
        most, least = self._limits()
        chosen = self._in_order(self.allocations[most >= least.max()])
        self._note(chosen)
        total, time, which = self._highest(chosen)
        contents = list(self._contents(which))
        exceeded = np.full(len(total), -1, dtype=np.int64)
        if total.max() > self.capacity:
            certain = least > self.capacity
            until = self.high[self.allocations[certain]].min() if certain.any() else self.high.max()
            over = (most > self.capacity) & (self.low[self.allocations] <= until)
            over = self._in_order(self.allocations[over])
            self._note(over)
            exceeded = self._exceeded(over)
        return StagePeaks(total, time, exceeded, contents)

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
        return len(self.lanes[0].stage.columns)

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

    @cached_property
    def _compute(self) -> int:
        return next(lane.number for lane in self.lanes if lane.drops)

    def _note(self, allocations: Ints) -> None:
        """Keeps the ends of the kernels that decide when some allocations are, and what else is unsure."""
        rows = np.unique(np.concatenate([allocations, *(self._unsure(row) for row in allocations.tolist())]))
        self.rows.clear()
        wanted: set[int] = set()
        for moment in {moment for row in rows.tolist() for moment in self._deciding(row)}:
            if moment == self.account.numbers.zero:
                continue
            stream, entry, _, kind, _ = self._place(moment)
            lane = self.lanes[stream]
            if stream == self._compute:
                wanted.add(entry)
            elif kind == 2 and lane.waits[entry] == self._compute:
                wanted.add(lane.positions[entry] - 1)
        self.slowed.clear()
        self.kept = {index: now for index, now in kernels(self.lanes) if index in wanted}

    def _place(self, moment: int) -> tuple[int, int, int, int, int]:
        """(stream, entry, code, start, end or arrival, instruction) of a moment."""
        numbers, stage = self.account.numbers, self.lanes[0].stage
        code = max(
            (code for code in numbers.first if numbers.first[code] <= moment), key=numbers.first.__getitem__
        )
        width, count = numbers.instructions[code], len(numbers.executions[code])
        kind, inside = divmod(moment - numbers.first[code], width * count)
        nth, instruction = divmod(inside, width)
        timed = stage.codes[code]
        stream = stage.streams[timed.streams[int(timed.stream_of[instruction])]]
        base = int(stage.linked.bases[numbers.executions[code][nth], stream])
        return stream, base + int(timed.entry[instruction]), code, kind, instruction

    def _moment(self, moment: int) -> Ints:
        """The times of a moment by column."""
        if moment == self.account.numbers.zero:
            return np.zeros(self._width, dtype=np.int64)
        stream, entry, code, kind, instruction = self._place(moment)
        stage, lane = self.lanes[0].stage, self.lanes[stream]
        if stream == self._compute:
            duration = stage.priced[code].duration
            timed = stage.codes[code]
            together = np.flatnonzero(
                (timed.stream_of == timed.stream_of[instruction]) & (timed.entry == timed.entry[instruction])
            )
            later = together[together > instruction] if kind == 1 else together[together >= instruction]
            times: Ints = self._flat(self.kept[entry]) - duration[later].sum(axis=0)
            if entry in lane.longer:
                times[lane.longer[entry][0]] = self._slowed(lane, entry)[len(together) - len(later)]
            return times
        if kind == 2:
            return self._arrival(lane, entry)
        ended = lane.ends[entry]
        assert ended is not None
        spent = lane.durations[entry]
        return self._flat(ended if kind == 1 or spent is None else ended - spent)

    def _slowed(self, lane: Lane, entry: int) -> Ints:
        """When a segment starts and its kernels end, of the columns in which communication slows it."""
        if entry not in self.slowed:
            columns, more = lane.longer[entry]
            end, duration = self._flat(self.kept[entry])[columns], lane.durations[entry]
            assert duration is not None
            start = end - self._flat(duration)[columns] - more
            inside = self._beside.kernel_ends(entry, columns, start, end)
            self.slowed[entry] = np.concatenate([start[None], inside])
        return self.slowed[entry]

    @cached_property
    def _beside(self) -> Beside:
        return Beside.whole(self.lanes[0].stage, self.lanes)

    def _arrival(self, lane: Lane, entry: int) -> Ints:
        arrived = np.zeros(self._width, dtype=np.int64)
        if entry:
            before = lane.ends[entry - 1]
            assert before is not None
            arrived = self._flat(before)
        if lane.waits[entry] != NOTHING:
            other, position = lane.waits[entry], lane.positions[entry] - 1
            end = self.kept[position] if other == self._compute else self.lanes[other].ends[position]
            assert end is not None
            arrived = np.maximum(arrived, self._flat(end))
        return arrived

    def _flat(self, times: Ints) -> Ints:
        return np.asarray(np.broadcast_to(times, self.lanes[0].stage.shape).ravel())


def _until(ticks: Ints, sizes: Ints, at: Ints) -> Ints:
    """Per element of ``at`` the sum of the sizes whose tick is not larger."""
    order = np.argsort(ticks, kind="stable")
    sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes[order])])
    return sums[np.searchsorted(ticks[order], at, side="right")]
