"""The breakdown of a step into compute and waits by cause; of a sweep for all its classes at once.

The rules are those of ``idle_gaps``: a wait is charged to the awaited stream, and followed back through what
the awaited entry itself had to wait for. Vectors over the classes of a stage take the place of rows; where
classes were kept waiting by different things, the vector is split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.timeline.idle_gaps import IDLE, PIPELINE_WAIT
from simcluster.engine import NOTHING, ClassTiming, Lane, Swept
from simcluster.program import COMPUTE, InstructionKind, Program, charged_to, is_host_stream
from simcluster.trace import Table

Ints = NDArray[np.int64]
Chosen: TypeAlias = Ints | None
"""Columns, or all of them."""


@dataclass(frozen=True)
class StepBreakdown:
    """Nanoseconds of the run by class: kernels with their launches, these alone, waits by cause, and what
    kernels took longer beside communication.
    """

    busy: Ints
    host: Ints
    lost: Mapping[str, Ints]
    slowed: Ints


def break_down_sweep(swept: Swept, stage_axis: str) -> StepBreakdown:
    """The breakdown of every class of a sweep; its parts fill the run without remainder."""
    count = len(swept.stages)
    total = sum(len(stage.columns) for stage in swept.stages)
    busy, host, slowed = (np.zeros(total, dtype=np.int64) for _ in range(3))
    lost: dict[str, Ints] = {}
    for stage, lanes in zip(swept.stages, swept.lanes, strict=True):
        for code, times in stage.counts.items():
            busy[stage.columns] += times * stage.priced[code].busy
            host[stage.columns] += times * stage.priced[code].host
        for columns, spent in (longer for lane in lanes for longer in lane.longer.values()):
            slowed[stage.columns[columns]] += spent
        cut = _StageCut(lanes, stage_axis, stage.shape)
        cut.run(swept.end, PIPELINE_WAIT if count > 1 else IDLE)
        for cause, spent in cut.lost.items():
            if spent.any():
                lost.setdefault(cause, np.zeros(total, dtype=np.int64))[stage.columns] = spent.ravel()
    return StepBreakdown(busy, host, {cause: lost[cause] for cause in sorted(lost)}, slowed)


def break_down_classes(program: Program, timings: Sequence[ClassTiming], gaps: Table) -> StepBreakdown:
    """The same from classes timed one by one, and the table of their waits."""
    count = len(timings)
    busy, host, spent = (np.zeros(count, dtype=np.int64) for _ in range(3))
    for index, timing in enumerate(timings):
        kernels_of = next(i for i, stream in enumerate(timing.linked.streams) if stream.name == COMPUTE)
        spent[index] = int((timing.ends[kernels_of] - timing.starts[kernels_of]).sum())
        for code, executions in timing.linked.by_code().items():
            instructions = program.codes[code].instructions
            kernels = np.array([i.action is InstructionKind.COMPUTE for i in instructions], dtype=bool)
            timed = timing.codes[code]
            busy[index] += len(executions) * int(timed.duration[kernels].sum())
            host[index] += len(executions) * int(timed.host[kernels].sum())
    lost = {cause: np.zeros(count, dtype=np.int64) for cause in sorted(gaps.names["cause"])}
    for number, cause in enumerate(gaps.names["cause"]):
        rows = gaps["cause"] == number
        np.add.at(lost[cause], gaps["class"][rows], (gaps["end"] - gaps["start"])[rows])
    return StepBreakdown(busy, host, lost, spent - busy)


@dataclass
class _StageCut:
    lanes: Sequence[Lane]
    stage_axis: str
    shape: tuple[int, int]
    lost: dict[str, Ints] = field(default_factory=dict)
    inside: dict[int, Ints] = field(default_factory=dict)

    def run(self, end: int, rest: str) -> None:
        """Charges every time the compute stream stands still, until the ``end`` of the run."""
        streams = self.lanes[0].stage.linked.streams
        served = [charged_to(stream.name, self.stage_axis) for stream in streams]
        self.axes = ["+".join(axes) for axes in served]
        self.staged = [self.stage_axis in axes for axes in served]
        self.compute = next(lane.number for lane in self.lanes if lane.drops)
        self._tail(self._kernels(), end, rest)

    def _kernels(self) -> Ints:
        """Charges the waits between kernels, and gives the end of the last one."""
        lane = self.lanes[self.compute]
        now = since = np.zeros(self.shape, dtype=np.int64)
        moves: list[tuple[int, int, Ints, Ints]] = []
        for index, (stream, position) in enumerate(zip(lane.waits, lane.positions, strict=True)):
            if stream != NOTHING:
                awaited = self.lanes[stream].ends[position - 1]
                assert awaited is not None
                later = np.maximum(now, awaited)
                moves.append((stream, position - 1, now, later))
                now = later
            duration = lane.taking(index)
            if duration is None:
                self.inside[index] = now
                continue
            if moves:
                self._episode(since, moves)
                moves.clear()
            self.inside.clear()
            now = since = now + duration
        if moves:
            self._episode(since, moves)
        return now

    def _episode(self, first: Ints, moves: Sequence[tuple[int, int, Ints, Ints]]) -> None:
        """Charges one wait to the last entry that prolonged it."""
        last = moves[-1][3]
        if len(moves) == 1:
            stream, entry, _, _ = moves[0]
            self._blame(first, last, stream, entry, None)
            return
        left = (last > first).ravel()
        for stream, entry, before, after in reversed(moves):
            columns = np.flatnonzero(left & (after > before).ravel())
            if columns.size:
                self._blame(first.ravel()[columns], last.ravel()[columns], stream, entry, columns)
                left[columns] = False

    def _blame(self, first: Ints, last: Ints, stream: int, entry: int, chosen: Chosen) -> None:
        """Charges the wait of the ``chosen`` columns, from ``first`` to ``last``, for an entry."""
        waiting = [(first, last, stream, entry, chosen)]
        while waiting:
            first, last, stream, entry, chosen = waiting.pop()
            arrived = self._arrival(stream, entry, chosen)
            if self.staged[stream]:
                start = np.maximum(first, np.minimum(last, self._start(stream, entry, chosen)))
                self._charge(self.axes[stream], last - start, chosen)
                # Ready but not started: the other members of the group are late.
                ready = first if arrived is None else np.maximum(first, np.minimum(start, arrived))
                self._charge(PIPELINE_WAIT, start - ready, chosen)
            else:
                ready = first if arrived is None else np.maximum(first, np.minimum(last, arrived))
                self._charge(self.axes[stream], last - ready, chosen)
            if arrived is None:
                continue
            more = np.flatnonzero(ready > first)
            if not more.size:
                continue
            columns = more if chosen is None else chosen[more]
            first, last = first.ravel()[more], ready.ravel()[more]
            lane = self.lanes[stream]
            other, position = lane.waits[entry], lane.positions[entry] - 1
            reached = self._end(other, position, columns) if other != NOTHING else None
            by_wait = np.zeros(len(columns), dtype=np.bool_) if reached is None else reached >= last
            if by_wait.any():
                waiting.append((first[by_wait], last[by_wait], other, position, columns[by_wait]))
            if entry and not by_wait.all():
                waiting.append((first[~by_wait], last[~by_wait], stream, entry - 1, columns[~by_wait]))

    def _arrival(self, stream: int, entry: int, chosen: Chosen) -> Ints | None:
        """When an entry was ready; None if that is certainly not after the wait began."""
        lane = self.lanes[stream]
        before = self._end(stream, entry - 1, chosen) if entry else None
        awaited = None
        if lane.waits[entry] != NOTHING:
            awaited = self._end(lane.waits[entry], lane.positions[entry] - 1, chosen)
        if before is None or awaited is None:
            return awaited if before is None else before
        return np.maximum(before, awaited)

    def _start(self, stream: int, entry: int, chosen: Chosen) -> Ints:
        lane = self.lanes[stream]
        end, duration = lane.ends[entry], lane.durations[entry]
        assert end is not None
        return self._of(end if duration is None else end - duration, chosen)

    def _end(self, stream: int, entry: int, chosen: Chosen) -> Ints | None:
        """When an entry ended; None for kernels, all of which ended before the wait began."""
        end = self.inside.get(entry) if stream == self.compute else self.lanes[stream].ends[entry]
        return None if end is None else self._of(end, chosen)

    def _of(self, times: Ints, chosen: Chosen) -> Ints:
        if chosen is None:
            return times
        if times.ndim == 1:
            return np.asarray(times[chosen % self.shape[1]])
        return np.asarray(times.ravel()[chosen])

    def _charge(self, cause: str, spent: Ints, chosen: Chosen) -> None:
        if cause not in self.lost:
            self.lost[cause] = np.zeros(self.shape, dtype=np.int64)
        if chosen is None:
            self.lost[cause] += spent
        else:
            self.lost[cause].reshape(-1)[chosen] += spent

    def _tail(self, idle: Ints, end: int, rest: str) -> None:
        """From the last kernel to the end of the run: its own communication first, then the others.

        What the host does then is cut by what that waited for.
        """
        over, of = idle, np.full(self.shape, self.compute, dtype=np.int64)
        for lane in sorted(self.lanes, key=lambda lane: lane.stage.linked.streams[lane.number].name):
            if lane.length and lane.number != self.compute:
                last = lane.ends[-1]
                assert last is not None
                later = np.broadcast_to(last, self.shape) >= over
                over = np.where(later, last, over)
                of = np.where(later, lane.number, of)
        for lane in self.lanes:
            charged = (of == lane.number) & (over > idle)
            name = lane.stage.linked.streams[lane.number].name
            if charged.any() and is_host_stream(name):
                where = np.flatnonzero(charged.ravel())
                first, last = (np.broadcast_to(times, self.shape).ravel()[where] for times in (idle, over))
                self._blame(first, last, lane.number, lane.length - 1, where)
            elif charged.any():
                self._charge(self.axes[lane.number], np.where(charged, over - idle, 0), None)
        self._charge(rest, end - over, None)
