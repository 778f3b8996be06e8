"""Idle gaps: every gap between the kernels of a compute stream, with its cause (DESIGN 4.11).

Kernels and gaps together fill the step without remainder. When a kernel waited for several streams, the one
that ended last is charged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.timeline.instruction_spans import NameIndex
from simcluster.engine import ClassTiming
from simcluster.program import COMPUTE, charged_to, is_host_stream
from simcluster.trace import Table, concatenate_tables

Ints = NDArray[np.int64]

PIPELINE_WAIT = "pipeline wait"
IDLE = "idle"


def find_idle_gaps(timings: Sequence[ClassTiming], end: int, stage_axis: str, num_stages: int) -> Table:
    """The table of waits: start, end, class and cause (a communication axis, pipeline wait or idle)."""
    causes = NameIndex()
    parts = [
        _class_waits(index, timing, end, stage_axis, num_stages, causes)
        for index, timing in enumerate(timings)
    ]
    return concatenate_tables(parts, {"cause": list(causes.names)})


def _class_waits(
    index: int, timing: ClassTiming, end: int, stage_axis: str, num_stages: int, causes: NameIndex
) -> Table:
    streams = timing.linked.streams
    compute = next(number for number, stream in enumerate(streams) if stream.name == COMPUTE)
    blame = _Blame(timing, stage_axis)
    rows = [row for episode in _episodes(timing, compute) for row in blame.rows(*episode)]
    rows += _tail(timing, compute, end, stage_axis, num_stages, blame)
    kept = [row for row in rows if row[1] > row[0]]
    return Table(
        {
            "start": np.array([row[0] for row in kept], dtype=np.int64),
            "end": np.array([row[1] for row in kept], dtype=np.int64),
            "class": np.full(len(kept), index, dtype=np.int32),
            "cause": np.array([causes.number(row[2]) for row in kept], dtype=np.int16),
        }
    )


def _episodes(timing: ClassTiming, compute: int) -> list[tuple[int, int, int, int]]:
    """(start, end, stream waited for, its entry) of every time the compute stream stood still."""
    linked = timing.linked.streams[compute]
    starts = timing.starts[compute]
    if not len(starts):
        return []
    before = np.concatenate([[0], timing.ends[compute][:-1]])
    gaps = np.flatnonzero(starts > before)
    if not len(gaps):
        return []
    # Entries that only wait have no duration: gaps with equal work done before them are one episode.
    work = np.concatenate([[0], np.cumsum(linked.duration)[:-1]])[gaps]
    first = np.flatnonzero(np.concatenate([[True], work[1:] != work[:-1]]))
    last = np.concatenate([first[1:] - 1, [len(gaps) - 1]])
    return list(
        zip(
            before[gaps[first]].tolist(),
            starts[gaps[last]].tolist(),
            linked.wait_stream[gaps[last]].tolist(),
            (linked.wait_position[gaps[last]] - 1).tolist(),
            strict=True,
        )
    )


class _Blame:
    """Follows a wait back through what the awaited collective itself had to wait for."""

    def __init__(self, timing: ClassTiming, stage_axis: str) -> None:
        streams = timing.linked.streams
        self.starts = [starts.tolist() for starts in timing.starts]
        self.arrivals = [arrivals.tolist() for arrivals in timing.arrivals]
        self.ends = [ends.tolist() for ends in timing.ends]
        self.wait_streams = [stream.wait_stream.tolist() for stream in streams]
        self.wait_entries = [(stream.wait_position - 1).tolist() for stream in streams]
        served = [charged_to(stream.name, stage_axis) for stream in streams]
        self.axes = ["+".join(axes) for axes in served]
        self.staged = [stage_axis in axes for axes in served]

    def rows(self, first: int, last: int, stream: int, entry: int) -> list[tuple[int, int, str]]:
        """The wait from ``first`` to ``last`` for an entry of a stream, cut by cause."""
        pieces = []
        while last > first and entry >= 0:
            start = max(first, min(last, self.starts[stream][entry]))
            pieces.append((start, last, self.axes[stream]))
            ready = max(first, min(start, self.arrivals[stream][entry]))
            # Ready but not started: the other members of the group are late.
            pieces.append((ready, start, PIPELINE_WAIT if self.staged[stream] else self.axes[stream]))
            last = ready
            stream, entry = self._before(stream, entry, ready)
        return pieces

    def _before(self, stream: int, entry: int, ready: int) -> tuple[int, int]:
        """What made an entry ready at ``ready``: the entry it waited for, or the one before it."""
        other, position = self.wait_streams[stream][entry], self.wait_entries[stream][entry]
        if other >= 0 and self.ends[other][position] >= ready:
            return other, position
        return stream, entry - 1


def _tail(
    timing: ClassTiming, compute: int, end: int, stage_axis: str, num_stages: int, blame: _Blame
) -> list[tuple[int, int, str]]:
    """From a class's last kernel to the end of the run: its own communication first, then the others.

    What the host does then is cut by what that waited for.
    """
    ends = [
        (int(stream_ends[-1]), stream.name, number)
        for number, (stream_ends, stream) in enumerate(zip(timing.ends, timing.linked.streams, strict=True))
        if len(stream_ends)
    ]
    kernels = timing.ends[compute]
    idle = int(kernels[-1]) if len(kernels) else 0
    over, name, number = max(ends, default=(0, COMPUTE, compute))
    rows = []
    if over > idle and is_host_stream(name):
        rows += blame.rows(idle, over, number, len(timing.ends[number]) - 1)
        idle = over
    elif over > idle and name != COMPUTE:
        rows.append((idle, over, "+".join(charged_to(name, stage_axis))))
        idle = over
    rows.append((idle, end, PIPELINE_WAIT if num_stages > 1 else IDLE))
    return rows
