"""The breakdown of a step into compute and waits by cause.

The rules are those of ``idle_gaps``: a wait is charged to the awaited stream, and followed back through what
the awaited entry itself had to wait for. Of many different classes, whose table of gaps would be too large,
vectors over the classes of a group take the place of rows; where classes were kept waiting by different
things, the vector is split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.timeline.idle_gaps import IDLE, PIPELINE_WAIT
from simcluster.engine import NOTHING, GroupTiming, Timing
from simcluster.program import InstructionKind, Program, charged_to, is_host_stream
from simcluster.trace import Table

Ints = NDArray[np.int64]
Chosen: TypeAlias = Ints | slice
"""Classes of a group."""

ALL: Chosen = slice(None)


@dataclass(frozen=True)
class StepBreakdown:
    """Nanoseconds of the run by class: kernels with their launches, these alone, waits by cause, and what
    kernels took longer beside communication.
    """

    busy: Ints
    host: Ints
    lost: Mapping[str, Ints]
    slowed: Ints


def break_down(program: Program, timing: Timing, gaps: Table | None) -> StepBreakdown:
    """The breakdown of every class, from the table of ``gaps`` where there is one; its parts fill the run
    without remainder.
    """
    count = len(timing.classes)
    busy, host, spent = (np.zeros(count, dtype=np.int64) for _ in range(3))
    for group in timing.groups:
        indices, compute = list(group.group.indices), group.group.part.compute
        spent[indices] = (group.ends[compute] - group.starts[compute]).sum(axis=0)
        for code, executions in group.group.part.untimed.by_code().items():
            instructions = program.codes[code].instructions
            kernels = np.array([i.action is InstructionKind.COMPUTE for i in instructions], dtype=bool)
            priced = group.group.priced(code)
            busy[indices] += len(executions) * priced.duration[kernels].sum(axis=0)
            host[indices] += len(executions) * priced.host[kernels].sum(axis=0)
    lost = _lost_by_class(program, timing, count) if gaps is None else _lost_in_gaps(gaps, count)
    return StepBreakdown(busy, host, lost, spent - busy)


def _lost_in_gaps(gaps: Table, count: int) -> Mapping[str, Ints]:
    lost = {cause: np.zeros(count, dtype=np.int64) for cause in sorted(gaps.names["cause"])}
    for number, cause in enumerate(gaps.names["cause"]):
        rows = gaps["cause"] == number
        np.add.at(lost[cause], gaps["class"][rows], (gaps["end"] - gaps["start"])[rows])
    return lost


def _lost_by_class(program: Program, timing: Timing, count: int) -> Mapping[str, Ints]:
    lost: dict[str, Ints] = {}
    for group in timing.groups:
        waits = _GroupWaits(group, program.stage_axis)
        waits.run(timing.end, PIPELINE_WAIT if program.num_stages > 1 else IDLE)
        for cause, spent in waits.lost.items():
            if spent.any():
                lost.setdefault(cause, np.zeros(count, dtype=np.int64))[list(group.group.indices)] = spent
    return {cause: lost[cause] for cause in sorted(lost)}


@dataclass
class _GroupWaits:
    timing: GroupTiming
    stage_axis: str
    lost: dict[str, Ints] = field(default_factory=dict)

    def run(self, end: int, rest: str) -> None:
        """Charges every time the compute stream stands still, until the ``end`` of the run."""
        part = self.timing.group.part
        served = [charged_to(stream.name, self.stage_axis) for stream in part.untimed.streams]
        self.axes = ["+".join(axes) for axes in served]
        self.staged = [self.stage_axis in axes for axes in served]
        self.compute, self.waits = part.compute, part.waits
        self._tail(self._kernels(), end, rest)

    def _kernels(self) -> Ints:
        """Charges the waits between kernels, and gives the end of the last one."""
        starts, ends = self.timing.starts[self.compute], self.timing.ends[self.compute]
        now = since = np.zeros(starts.shape[1], dtype=np.int64)
        self.since = since
        moves: list[tuple[int, int, Ints, Ints]] = []
        for entry, (stream, position) in enumerate(zip(*self.waits[self.compute], strict=True)):
            if stream != NOTHING:
                moves.append((stream, position - 1, now, starts[entry]))
            now = ends[entry]
            if not (now > starts[entry]).any():
                continue
            if moves:
                self._episode(since, moves)
                moves.clear()
            since = now
        if moves:
            self._episode(since, moves)
        return now

    def _episode(self, first: Ints, moves: Sequence[tuple[int, int, Ints, Ints]]) -> None:
        """Charges one wait to the last entry that prolonged it."""
        last = moves[-1][3]
        if len(moves) == 1:
            stream, entry, _, _ = moves[0]
            self._blame(first, last, stream, entry, ALL)
            return
        left = last > first
        for stream, entry, before, after in reversed(moves):
            columns = np.flatnonzero(left & (after > before))
            if columns.size:
                self._blame(first[columns], last[columns], stream, entry, columns)
                left[columns] = False

    def _blame(self, first: Ints, last: Ints, stream: int, entry: int, chosen: Chosen) -> None:
        """Charges the wait of the ``chosen`` classes, from ``first`` to ``last``, for an entry."""
        starts, arrivals, ends = self.timing.starts, self.timing.arrivals, self.timing.ends
        waiting = [(first, last, stream, entry, chosen)]
        while waiting:
            first, last, stream, entry, chosen = waiting.pop()
            begun = last
            if self.staged[stream]:
                begun = np.maximum(first, np.minimum(last, starts[stream][entry, chosen]))
                self._charge(self.axes[stream], last - begun, chosen)
            ready = np.maximum(first, np.minimum(begun, arrivals[stream][entry, chosen]))
            # Ready but not started: the other members of the group are late.
            self._charge(PIPELINE_WAIT if self.staged[stream] else self.axes[stream], begun - ready, chosen)
            more = np.flatnonzero(ready > first)
            if not more.size:
                continue
            columns = more if isinstance(chosen, slice) else chosen[more]
            first, last = first[more], ready[more]
            other, position = self.waits[stream][0][entry], self.waits[stream][1][entry] - 1
            by_wait = np.zeros(len(columns), dtype=np.bool_)
            if other != NOTHING:
                by_wait = ends[other][position, columns] >= last
            if by_wait.any():
                waiting.append((first[by_wait], last[by_wait], other, position, columns[by_wait]))
            if entry and not by_wait.all():
                waiting.append((first[~by_wait], last[~by_wait], stream, entry - 1, columns[~by_wait]))

    def _charge(self, cause: str, spent: Ints, chosen: Chosen) -> None:
        if cause not in self.lost:
            self.lost[cause] = np.zeros(len(self.timing.group.indices), dtype=np.int64)
        self.lost[cause][chosen] += spent

    def _tail(self, idle: Ints, end: int, rest: str) -> None:
        """From the last kernel to the end of the run: its own communication first, then the others.

        What the host does then is cut by what that waited for.
        """
        streams, ends = self.timing.group.part.untimed.streams, self.timing.ends
        over, of = idle, np.full(len(idle), self.compute)
        for number in sorted(range(len(streams)), key=lambda number: streams[number].name):
            if len(streams[number]) and number != self.compute:
                later = ends[number][-1] >= over
                over, of = np.where(later, ends[number][-1], over), np.where(later, number, of)
        for number, stream in enumerate(streams):
            where = np.flatnonzero((of == number) & (over > idle))
            if where.size and is_host_stream(stream.name):
                self._blame(idle[where], over[where], number, len(stream) - 1, where)
            elif where.size:
                self._charge(self.axes[number], over[where] - idle[where], where)
        self._charge(rest, end - over, ALL)
