"""Kernels of many classes beside their communication: how much longer a segment takes in each of them.

The rules are those of ``pace``, to the nanosecond: between two starts or ends of communication every part of
a segment goes on at one rate, and ends at the first whole nanosecond by which all of it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster import SCALE
from simcluster.engine.lanes import Lane, Longer
from simcluster.engine.pace import PARTS
from simcluster.engine.prices import Shares, UnequalDurations
from simcluster.engine.stage import Stage
from simcluster.engine.timed import NOTHING

Ints = NDArray[np.int64]
Numbers: TypeAlias = NDArray[Any]
"""Whole numbers, as integers or in floating point."""

NEVER = 2**62
"""A time (ns) that does not come."""

LONG = 2**62 // SCALE
"""Nanoseconds of a part, an hour, from which on millionths of them do not fit into 64 bits."""

SHORT = 2**53 // SCALE
"""Nanoseconds of a part below which floating point is exact, and rounds a quotient up to the right integer:
what is left of it, in millionths, is an integer below 2^53. Divided by a rate it is an integer or at least
1 / rate away from any, which is more than it is rounded by.
"""

MANY = 2**9
"""Times of what may run beside a segment, from which on it pays to look which of it can."""


@dataclass(frozen=True)
class Work:
    """The parts of a segment: nanoseconds [parts, columns], without those that are nowhere, and their kinds.

    ``last`` is the last part of each of its kernels.
    """

    parts: Ints
    kinds: Ints
    last: Ints

    @classmethod
    def of(cls, kernels: Ints) -> Work:
        """The segment of ``kernels`` [kernels, ``PARTS``, columns]."""
        parts = kernels.reshape(-1, kernels.shape[2])
        there = parts.any(axis=1)
        last = np.cumsum(there)[PARTS - 1 :: PARTS] - 1
        return cls(parts[there], np.tile(np.arange(PARTS), len(kernels))[there], last)

    @cached_property
    def short(self) -> bool:
        """Whether floating point is exact."""
        return int(self.parts.max(initial=0)) < SHORT


@dataclass(frozen=True)
class Others:
    """What runs beside: when each begins and ends [others, columns], and its shares of the units and of the
    memory in millionths [2, others, columns].
    """

    begins: Ints
    ends: Ints
    shares: Ints


def part_ends(work: Work, columns: Ints, start: Ints, others: Others, *, all_parts: bool = False) -> Ints:
    """When a segment ends that starts at ``start`` in some of its columns; or each part [parts, columns]."""
    number = np.float64 if work.short else np.int64
    left: Numbers = work.parts.take(columns, axis=1).astype(number)
    left *= SCALE
    count = len(others.begins)
    edges = np.concatenate([others.begins, others.ends])
    edges -= start
    shares = others.shares.astype(number)
    rates = np.full((PARTS, len(columns)), SCALE, dtype=number)
    found = np.zeros(left.shape if all_parts else start.shape, dtype=number)
    time, live = np.zeros(len(columns), dtype=np.int64), np.ones(len(columns), dtype=np.bool_)
    while live.any():
        later = edges > time
        under = later[count:] > later[:count]
        np.maximum(SCALE - (shares * under).sum(axis=1), SCALE // (under.sum(axis=0) + 1), out=rates[:2])
        rate = rates.take(work.kinds, axis=0)
        spent = np.ceil(left / rate) if work.short else -(-left // rate)
        over = spent.cumsum(axis=0)
        over += time
        # What is over keeps its time: nothing of it is left.
        if all_parts:
            np.copyto(found, over, where=left > 0)
        else:
            np.copyto(found, over[-1], where=live)
        turn = np.where(later, edges, NEVER).min(axis=0)
        live = over[-1] > turn
        if not live.any():
            break
        # Every part goes on from its start to its end, but not beyond the turn.
        run = over - spent
        np.subtract(turn, run, out=run)
        np.maximum(run, 0, out=run)
        np.minimum(run, spent, out=run)
        run *= rate
        left -= run
        np.maximum(left, 0, out=left)
        time = turn
    if all_parts:
        # What takes no time in a column ends with what is before it.
        np.maximum.accumulate(found, axis=0, out=found)
    return start + found.astype(np.int64, copy=False)


class Beside:
    """The communication of a stage beside which its kernels may run, and what it makes of them.

    A row each for what is known of it; ``low`` is the first that is not over for all kernels to come. Raises
    Uneven if a kernel takes hours.
    """

    def __init__(self, stage: Stage, lanes: Sequence[Lane]) -> None:
        if any(int(priced.parts.max(initial=0)) >= LONG for priced in stage.priced.values()):
            raise UnequalDurations
        self.stage, self.lanes = stage, lanes
        self.compute = next(lane for lane in lanes if lane.drops)
        self._segment_rows: list[int] = stage.rows(self.compute.number).tolist()
        self._shares: list[Shares] = []
        self._kind_of: dict[tuple[int, int], int] = {}
        self.kinds = [self._kinds(lane) for lane in lanes]
        count, width = sum(len(found) for found in self.kinds), len(stage.columns)
        self.begins = np.full((count, width), NEVER, dtype=np.int64)
        self.ends = np.full((count, width), NEVER, dtype=np.int64)
        self._kind = np.zeros(count, dtype=np.int64)
        self._taken = np.array([[each.units, each.memory] for each in self._shares], dtype=np.int64)
        self.row_of: dict[tuple[int, int], int] = {}
        self.low = self.count = 0
        self._work: dict[int, Work] = {}

    @classmethod
    def whole(cls, stage: Stage, lanes: Sequence[Lane]) -> Beside:
        """All communication of a stage that has been timed."""
        found = cls(stage, lanes)
        for lane, kinds in zip(lanes, found.kinds, strict=True):
            for entry in kinds:
                found.tell(lane.number, entry)
        return found

    def _kinds(self, lane: Lane) -> dict[int, int]:
        """The entries of a lane beside which kernels may run, and their kinds."""
        each = self.stage.linked.streams[lane.number]
        where = np.flatnonzero(each.meeting != NOTHING)
        if lane.drops or not where.size:
            return {}
        apart = where[self._apart(lane, where)].tolist()
        found = {entry: self._kind_number(lane, entry) for entry in apart}
        return {entry: number for entry, number in found.items() if number != NOTHING}

    def _apart(self, lane: Lane, where: Ints) -> NDArray[np.bool_]:
        """Which entries some kernel neither waits for nor is awaited by."""
        compute = self.compute
        spent = np.array([each is not None for each in compute.durations], dtype=np.int64)
        until = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(spent)])
        mine = np.array(lane.waits, dtype=np.int64) == compute.number
        over = np.maximum.accumulate(np.where(mine, np.array(lane.positions, dtype=np.int64), 0))
        waiting = np.full(lane.length + 1, compute.length, dtype=np.int64)
        theirs = np.flatnonzero(np.array(compute.waits, dtype=np.int64) == lane.number)
        np.minimum.at(waiting, np.array(compute.positions, dtype=np.int64)[theirs], theirs)
        before = np.minimum.accumulate(waiting[::-1])[::-1][1:]
        found: NDArray[np.bool_] = until[before[where]] > until[np.minimum(over[where], before[where])]
        return found

    def _kind_number(self, lane: Lane, entry: int) -> int:
        """The number of what an entry takes; ``NOTHING`` if it takes nothing."""
        each, linked = self.stage.linked.streams[lane.number], self.stage.linked
        place = linked.executions[int(each.execution[entry])].code, int(each.meeting[entry])
        if place not in self._kind_of:
            taken = self.stage.priced[place[0]].takes.get(place[1])
            self._kind_of[place] = NOTHING if taken is None else len(self._shares)
            if taken is not None:
                self._shares.append(taken)
        return self._kind_of[place]

    # -- communication ----------------------------------------------------------------------------------

    def tell(self, lane: int, entry: int) -> tuple[int, Ints, Ints]:
        """Takes over the times of an entry; gives its row, and the times that were known before."""
        row = self.row_of.setdefault((lane, entry), self.count)
        if row == self.count:
            self.count += 1
            self._kind[row] = self.kinds[lane][entry]
        known = self.begins[row].copy(), self.ends[row].copy()
        end, duration = self.lanes[lane].ends[entry], self.lanes[lane].durations[entry]
        assert end is not None and duration is not None
        shape = self.stage.shape
        self.begins[row].reshape(shape)[:] = end - duration
        self.ends[row].reshape(shape)[:] = end
        return row, *known

    def pass_by(self, start: Ints) -> None:
        """Kernels have come to ``start``: rows that are over by then are no longer looked at."""
        self.low = self.passed(self.low, start)

    def passed(self, row: int, time: Ints) -> int:
        """The first row from ``row`` on that is not over by ``time``."""
        while row < self.count and (self.ends[row] <= time).all():
            row += 1
        return row

    # -- kernels ----------------------------------------------------------------------------------------

    def work(self, entry: int) -> Work:
        """What a segment of the compute stream does."""
        number = self._segment_rows[entry]
        if number not in self._work:
            self._work[number] = Work.of(self.stage.parts(self.compute.number, entry))
        return self._work[number]

    def longer(self, entry: int, start: Ints, end: Ints, low: int) -> Longer | None:
        """In which columns, and by how much, a segment takes longer than from ``start`` to ``end``.

        Rows before ``low`` are over by its start.
        """
        rows = slice(low, self.count)
        met = (self.begins[rows] < end) & (self.ends[rows] > start)
        if not met.any():
            return None
        columns = np.flatnonzero(met.any(axis=0))
        spent = self.spent(entry, columns, start[columns], end[columns], low)
        slowed = np.flatnonzero(spent)
        return (columns[slowed], spent[slowed]) if slowed.size else None

    def spent(self, entry: int, columns: Ints, start: Ints, end: Ints, low: int) -> Ints:
        """How much longer a segment takes in some columns than from ``start`` to ``end``; see ``longer``."""
        rows = slice(low, self.count)
        begins, ends = self.begins[rows].take(columns, axis=1), self.ends[rows].take(columns, axis=1)
        kinds = self._kind[rows]
        if begins.size > MANY:
            # No part gets less than an equal share, and it is rounded up: what begins later is not beside it.
            near = (begins < start + (end - start) * (2 * len(begins) + 3)) & (ends > start)
            mine = near.any(axis=1)
            begins, ends, kinds = begins[mine], ends[mine], kinds[mine]
        if not kinds.size:
            return np.zeros(len(columns), dtype=np.int64)
        return part_ends(self.work(entry), columns, start, self._others(kinds, columns, begins, ends)) - end

    def kernel_ends(self, entry: int, columns: Ints, start: Ints, end: Ints) -> Ints:
        """When the kernels [kernels, columns] of a segment end that runs from ``start`` to ``end``."""
        first, last = self._extent
        near = np.flatnonzero((first < end.max()) & (last > start.min()))
        begins, ends = self.begins[near][:, columns], self.ends[near][:, columns]
        met = np.flatnonzero(((begins < end) & (ends > start)).any(axis=1))
        others = self._others(self._kind[near[met]], columns, begins[met], ends[met])
        work = self.work(entry)
        return part_ends(work, columns, start, others, all_parts=True)[work.last]

    @cached_property
    def _extent(self) -> tuple[Ints, Ints]:
        """When each row first begins and last ends in any column."""
        return self.begins.min(axis=1), self.ends.max(axis=1)

    def _others(self, kinds: Ints, columns: Ints, begins: Ints, ends: Ints) -> Others:
        shares = self._taken[kinds].take(columns, axis=2)
        return Others(begins, ends, shares.transpose(1, 0, 2))
