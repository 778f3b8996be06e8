"""Idle gaps: every gap between the kernels of a compute stream, with its cause (DESIGN 4.11).

Kernels and gaps together fill the step without remainder. When a kernel waited for several streams, the one
that ended last is charged. All gaps of some classes are followed back at once, one awaited entry at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.timeline.instruction_spans import NameIndex
from simcluster.engine import NOTHING, ClassTiming
from simcluster.program import COMPUTE, charged_to, is_host_stream
from simcluster.trace import Table

Ints = NDArray[np.int64]

PIPELINE_WAIT = "pipeline wait"
IDLE = "idle"

TOGETHER = 2**18
"""Entries of streams whose gaps are followed at once: 10 MB."""


def find_idle_gaps(timings: Sequence[ClassTiming], end: int, stage_axis: str, num_stages: int) -> Table:
    """The table of waits: start, end, class and cause (a communication axis, pipeline wait or idle)."""
    causes = NameIndex()
    rest = causes.number(PIPELINE_WAIT if num_stages > 1 else IDLE)
    pieces = _Pieces()
    for chosen in _together(timings):
        entries = _Entries.of([timings[index] for index in chosen], stage_axis, causes)
        gaps = _Gaps()
        for at, index in enumerate(chosen):
            _find(timings[index], end, index, entries, at, rest, gaps)
        _follow(gaps, entries, pieces)
    return pieces.table(list(causes.names))


def _together(timings: Sequence[ClassTiming]) -> Iterator[list[int]]:
    """Neighbouring classes whose gaps are followed at once."""
    chosen: list[int] = []
    count = 0
    for index, timing in enumerate(timings):
        chosen.append(index)
        count += sum(map(len, timing.linked.streams))
        if count >= TOGETHER:
            yield chosen
            chosen, count = [], 0
    if chosen:
        yield chosen


@dataclass(frozen=True)
class _Entries:
    """The entries of all streams of some classes, one stream after the other.

    ``awaited`` and ``before`` are the entry that each waits for, and the one before it on its stream, or
    ``NOTHING``; ``cause`` is charged while it runs, ``late`` while it is ready and others are not. ``first``
    [classes][streams] is where streams begin.
    """

    starts: Ints
    arrivals: Ints
    ends: Ints
    awaited: Ints
    before: Ints
    cause: Ints
    late: Ints
    first: Sequence[Sequence[int]]

    @classmethod
    def of(cls, timings: Sequence[ClassTiming], stage_axis: str, causes: NameIndex) -> _Entries:
        streams = [stream for timing in timings for stream in timing.linked.streams]
        lengths = np.array([len(stream) for stream in streams], dtype=np.int64)
        begins = np.cumsum(lengths) - lengths
        served = [charged_to(stream.name, stage_axis) for stream in streams]
        cause = [causes.number("+".join(axes)) for axes in served]
        late = [
            causes.number(PIPELINE_WAIT) if stage_axis in axes else number
            for axes, number in zip(served, cause, strict=True)
        ]
        first = np.split(begins, np.cumsum([len(timing.linked.streams) for timing in timings])[:-1])
        awaited = [
            np.where(stream.wait_stream < 0, NOTHING, own[stream.wait_stream] + stream.wait_position - 1)
            for timing, own in zip(timings, first, strict=True)
            for stream in timing.linked.streams
        ]
        before = np.arange(-1, int(lengths.sum()) - 1)
        before[begins[lengths > 0]] = NOTHING
        return cls(
            np.concatenate([starts for timing in timings for starts in timing.starts]),
            # Kernels are ready when they start.
            np.concatenate(
                [
                    ready if len(ready) else starts
                    for timing in timings
                    for ready, starts in zip(timing.arrivals, timing.starts, strict=True)
                ]
            ),
            np.concatenate([ends for timing in timings for ends in timing.ends]),
            np.concatenate(awaited),
            before,
            np.repeat(np.array(cause), lengths),
            np.repeat(np.array(late), lengths),
            [own.tolist() for own in first],
        )


@dataclass
class _Gaps:
    """Gaps in the order of classes and time, as columns in parts: start, end, class, the entry waited for or
    ``NOTHING``, and the cause of those that wait for none.
    """

    parts: list[tuple[Ints, Ints, Ints, Ints, Ints]] = field(default_factory=list)

    def add(self, start: Ints, end: Ints, index: int, entry: Ints, cause: int = NOTHING) -> None:
        """More gaps of a class."""
        self.parts.append((start, end, np.full(len(start), index), entry, np.full(len(start), cause)))

    def add_one(self, start: int, end: int, index: int, entry: int, cause: int = NOTHING) -> None:
        """One more."""
        self.add(np.array([start]), np.array([end]), index, np.array([entry]), cause)


@dataclass
class _Pieces:
    """Gaps cut by cause, in parts: start, end, class and cause."""

    parts: list[tuple[Ints, Ints, Ints, Ints]] = field(default_factory=list)

    def table(self, names: Sequence[str]) -> Table:
        """All of them; causes are numbered as they occur."""
        start, end, index, cause = map(np.concatenate, zip(*self.parts, strict=True))
        numbers, first = np.unique(cause, return_index=True)
        order = numbers[np.argsort(first)]
        renumbered = np.zeros(len(names), dtype=np.int16)
        renumbered[order] = np.arange(len(order))
        columns = {"start": start, "end": end, "class": index.astype(np.int32), "cause": renumbered[cause]}
        return Table(columns, {"cause": [names[number] for number in order.tolist()]})


def _find(
    timing: ClassTiming, end: int, index: int, entries: _Entries, at: int, rest: int, gaps: _Gaps
) -> None:
    """Every time the compute stream of a class stood still, until the ``end`` of the run; ``at`` is its place
    among the ``entries``.
    """
    streams, first = timing.linked.streams, entries.first[at]
    compute = next(number for number, stream in enumerate(streams) if stream.name == COMPUTE)
    starts, ends = timing.starts[compute], timing.ends[compute]
    before = np.concatenate([[0], ends[:-1]])[: len(starts)]
    waits = np.flatnonzero(starts > before)
    if len(waits):
        # Entries that only wait have no duration: gaps with equal work done before them are one.
        work = np.cumsum(streams[compute].duration)
        work = (work - streams[compute].duration)[waits]
        begins = np.flatnonzero(np.concatenate([[True], work[1:] != work[:-1]]))
        last = waits[np.concatenate([begins[1:] - 1, [len(waits) - 1]])]
        gaps.add(before[waits[begins]], starts[last], index, entries.awaited[first[compute] + last])
    # From the last kernel on: its own communication first, then the others.
    idle = int(ends[-1]) if len(ends) else 0
    over, name, number = max(
        (
            (int(stream_ends[-1]), stream.name, number)
            for number, (stream_ends, stream) in enumerate(zip(timing.ends, streams, strict=True))
            if len(stream_ends)
        ),
        default=(0, COMPUTE, compute),
    )
    if over > idle and name != COMPUTE:
        ended = first[number] + len(timing.ends[number]) - 1
        if is_host_stream(name):
            # What the host does then is cut by what that waited for.
            gaps.add_one(idle, over, index, ended)
        else:
            gaps.add_one(idle, over, index, NOTHING, int(entries.cause[ended]))
        idle = over
    gaps.add_one(idle, end, index, NOTHING, rest)


def _follow(gaps: _Gaps, entries: _Entries, pieces: _Pieces) -> None:
    """Cuts gaps by cause, back through what the awaited entries themselves had to wait for."""
    first, last, index, entry, cause = map(np.concatenate, zip(*gaps.parts, strict=True))
    of_gap, starts, ends, causes = ([column] for column in (np.arange(len(first)), first, last, cause))
    starts[0] = np.where(cause == NOTHING, last, first)
    gap = np.flatnonzero((entry != NOTHING) & (last > first))
    since, until, entry = first[gap], last[gap], entry[gap]
    while len(gap):
        begun = np.maximum(since, np.minimum(until, entries.starts[entry]))
        ready = np.maximum(since, np.minimum(begun, entries.arrivals[entry]))
        of_gap += [gap, gap]
        starts += [begun, ready]
        ends += [until, begun]
        # Ready but not started: the other members of the group are late.
        causes += [entries.cause[entry], entries.late[entry]]
        # It was ready when the entry that it waited for was over, or the one before it.
        awaited = entries.awaited[entry]
        by_wait = (awaited != NOTHING) & (entries.ends[awaited] >= ready)
        entry = np.where(by_wait, awaited, entries.before[entry])
        left = np.flatnonzero((ready > since) & (entry != NOTHING))
        gap, since, until, entry = gap[left], since[left], ready[left], entry[left]
    cut = [np.concatenate(column) for column in (of_gap, starts, ends, causes)]
    kept = np.flatnonzero(cut[2] > cut[1])
    kept = kept[np.argsort(cut[0][kept], kind="stable")]
    of_gap_kept, begin, over, why = (column[kept] for column in cut)
    pieces.parts.append((begin, over, index[of_gap_kept], why))
