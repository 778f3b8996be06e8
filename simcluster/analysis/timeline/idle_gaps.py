"""Idle gaps: every gap between the kernels of a compute stream, with its cause (DESIGN 4.11).

Kernels and gaps together fill the step without remainder. When a kernel waited for several streams, the one
that ended last is charged; a gap is followed back through what the awaited entry itself had to wait for.
All classes of a group wait in the same places, so gaps are found for all of them at once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine import NOTHING, ClassTiming, GroupTiming, LinkedPart
from simcluster.number_arrays import Ints
from simcluster.program import charged_to, is_host_stream
from simcluster.trace import NameIndex, Table, number_by_appearance

PIPELINE_WAIT = "pipeline wait"
IDLE = "idle"

TOGETHER = 2**15
"""Times that are looked at together: so many stay in the processor's caches."""

FOLLOWED = 2**18
"""Pieces of gaps that are followed back together: 10 MB."""


class GapPieces(NamedTuple):
    """Pieces of gaps that have one cause, by number.

    ``start`` and ``end`` are [gaps, classes], or [pieces] of the classes in ``column``; ``gap`` numbers the
    gaps of a class in the order of time. Pieces may be empty. ``entry`` is what is charged, of those of all
    streams of the part, in the shape of ``start`` or to be broadcast to it; ``NOTHING``: no entry is.
    """

    gap: Ints
    column: Ints
    start: Ints
    end: Ints
    cause: int
    entry: Ints


def find_idle_gaps(timings: Sequence[ClassTiming], end: int, stage_axis: str, num_stages: int) -> Table:
    """The table of waits: start, end, class and cause (a communication axis, pipeline wait or idle)."""
    causes = NameIndex()
    by_group: dict[int, list[int]] = {}
    for index, timing in enumerate(timings):
        by_group.setdefault(id(timing.group), []).append(index)
    rows: list[tuple[Ints, ...]] = []
    for indices in by_group.values():
        group, classes = timings[indices[0]].group, np.array(indices)
        gaps = GroupGaps(group, [timings[index].column for index in indices], stage_axis, causes)
        for piece in gaps.pieces(end, num_stages):
            kept = piece.end > piece.start
            columns = (classes[piece.column], piece.gap, piece.start, piece.end, np.array(piece.cause))
            rows.append(tuple(np.broadcast_to(column, kept.shape)[kept] for column in columns))
    of_class, gap, start, over, cause = map(np.concatenate, zip(*rows, strict=True))
    order = np.lexsort((gap, of_class))
    # Causes are numbered as they occur.
    numbers, renumbered = number_by_appearance(cause[order])
    names = list(causes.names)
    return Table(
        {
            "start": start[order],
            "end": over[order],
            "class": of_class[order].astype(np.int32),
            "cause": renumbered.astype(np.int16),
        },
        {"cause": [names[number] for number in numbers.tolist()]},
    )


class _Waits(NamedTuple):
    """Entries of the compute stream that wait for others, among those of all streams.

    ``awaited`` is what each waits for; ``first`` and ``last`` are the entries between which nothing works
    around it: waits of one gap, numbered by ``gap``.
    """

    entry: Ints
    awaited: Ints
    first: Ints
    last: Ints
    gap: Ints


@dataclass(frozen=True)
class GroupGaps:
    """The gaps of some classes of a group, the ``columns``; ``causes`` has numbers for names."""

    timing: GroupTiming
    columns: Sequence[int]
    stage_axis: str
    causes: NameIndex

    def pieces(self, end: int, num_stages: int) -> Iterator[GapPieces]:
        """All times at which the compute streams stand still until the ``end`` of the run. Pieces of one gap
        come the latest first.
        """
        left: list[tuple[Ints, ...]] = []
        count = 0
        for number in np.unique(self._stream_of[self._waits.awaited]).tolist():
            chosen = np.flatnonzero(self._stream_of[self._waits.awaited] == number)
            step = max(1, TOGETHER // len(self.columns))
            for begin in range(0, len(chosen), step):
                rows = _Waits(*(column[chosen[begin : begin + step]] for column in self._waits))
                left.append((yield from self._first_pieces(rows, number)))
                count += len(left[-1][0])
                if count > FOLLOWED:
                    yield from self._followed(left)
                    left, count = [], 0
        left.append((yield from self._tail(end, num_stages)))
        yield from self._followed(left)

    def _first_pieces(self, rows: _Waits, number: int) -> Generator[GapPieces, None, tuple[Ints, ...]]:
        """The pieces due to the awaited entries themselves, which are on one stream; gives what is left."""
        times, every = self._times, slice(None)
        # The last entry that prolonged a gap is charged with all of it.
        before, over = times.ends[self._part.previous[rows.entry]], times.ends[rows.awaited]
        since = times.ends[self._part.previous[rows.first]]
        later = np.flatnonzero(rows.last > rows.entry)
        over[later] = np.where(over[later] == times.ready(rows.last[later], every), over[later], 0)
        until = np.where(over > before, over, since)
        ready, begun = times.begins(rows.awaited, every)
        begun = np.maximum(since, np.minimum(until, begun))
        ready = np.maximum(since, np.minimum(begun, ready))
        gap, column, awaited = rows.gap[:, None], np.arange(len(self.columns))[None], rows.awaited[:, None]
        cause, late = self._causes[number]
        yield GapPieces(gap, column, begun, until, cause, awaited)
        yield GapPieces(gap, column, ready, begun, late, awaited)
        row, column = np.nonzero(ready > since)
        return self._before(rows.gap[row], column, since[row, column], ready[row, column], rows.awaited[row])

    def _followed(self, left: Sequence[tuple[Ints, ...]]) -> Iterator[GapPieces]:
        """The pieces of what is left of gaps, back through what the awaited entries had to wait for."""
        gap, column, since, until, entry = map(np.concatenate, zip(*left, strict=True))
        while len(gap):
            ready, begun = self._times.begins(entry, column)
            begun = np.maximum(since, np.minimum(until, begun))
            # Ready but not started: the other members of the group are late. No kernel is.
            ready = np.maximum(since, np.minimum(begun, ready))
            stream = self._stream_of[entry]
            for number in np.unique(stream).tolist():
                own = stream == number
                cause, late = self._causes[number]
                yield GapPieces(gap[own], column[own], begun[own], until[own], cause, entry[own])
                yield GapPieces(gap[own], column[own], ready[own], begun[own], late, entry[own])
            more = ready > since
            gap, column, since, until, entry = self._before(
                *(values[more] for values in (gap, column, since, ready, entry))
            )

    def _before(self, gap: Ints, column: Ints, since: Ints, until: Ints, entry: Ints) -> tuple[Ints, ...]:
        """What an entry waited for until it was ready: its awaited entry, or the one before on its stream."""
        awaited = self._part.awaited[entry]
        by_wait = (awaited != NOTHING) & (self._times.ends[awaited, column] >= until)
        entry = np.where(by_wait, awaited, self._part.previous[entry])
        known = entry != NOTHING
        return tuple(values[known] for values in (gap, column, since, until, entry))

    def _tail(self, end: int, num_stages: int) -> Generator[GapPieces, None, tuple[Ints, ...]]:
        """From the last kernel to the end of the run: its own communication first, then the others. What the
        host does then is left: it is cut by what that waited for.
        """
        part, ends = self._part, self._times.ends
        columns = np.arange(len(self.columns))
        has_kernels = self._part.kernels.stop > self._part.kernels.start
        idle = ends[self._part.kernels.stop - 1] if has_kernels else np.zeros(len(columns), dtype=np.int64)
        over, of = idle, np.full(len(columns), part.compute)
        streams = part.streams
        for number in sorted(range(len(streams)), key=lambda number: streams[number].name):
            if len(streams[number]) and number != part.compute:
                last = ends[part.begins[number + 1] - 1]
                over, of = np.where(last >= over, last, over), np.where(last >= over, number, of)
        gap = np.full(len(columns), len(self._part.awaited))
        rest = self.causes.number(PIPELINE_WAIT if num_stages > 1 else IDLE)
        nothing = np.full(len(columns), NOTHING)
        yield GapPieces(gap + 1, columns, over, np.full(len(columns), end), rest, nothing)
        last_entries = part.begins[of + 1] - 1
        by_host = np.zeros(len(columns), dtype=np.bool_)
        for number in np.unique(of[over > idle]).tolist():
            own = (of == number) & (over > idle)
            if is_host_stream(streams[number].name):
                by_host |= own
            else:
                cause = self._causes[number][0]
                yield GapPieces(gap[own], columns[own], idle[own], over[own], cause, last_entries[own])
        return tuple(values[by_host] for values in (gap, columns, idle, over, last_entries))

    @cached_property
    def _times(self) -> GroupTiming:
        """The times of these columns only."""
        if list(self.columns) == list(range(len(self.timing.group.indices))):
            return self.timing
        return self.timing.chosen(self.columns)

    @property
    def _part(self) -> LinkedPart:
        return self.timing.group.part

    @cached_property
    def _causes(self) -> Sequence[tuple[int, int]]:
        """By stream what is charged while its entries run, and while they are ready and others are not."""
        causes = []
        for stream in self._part.streams:
            axes = charged_to(stream.name, self.stage_axis)
            cause = self.causes.number("+".join(axes))
            causes.append((cause, self.causes.number(PIPELINE_WAIT) if self.stage_axis in axes else cause))
        return causes

    @cached_property
    def _stream_of(self) -> Ints:
        """By entry its stream."""
        return np.repeat(np.arange(len(self._causes)), np.diff(self._part.begins))

    @cached_property
    def _waits(self) -> _Waits:
        """The entries of the compute streams that wait."""
        works = self._part.segments.which != NOTHING
        # Entries that only wait have no duration: those with equal work done before them are one gap.
        gap, first = np.cumsum(works) - works, np.flatnonzero(np.append(True, works[:-1]))
        last = np.append(first[1:], len(works)) - 1
        waiting = np.flatnonzero(self._part.awaited[self._part.kernels] != NOTHING)
        gap, entry = gap[waiting], waiting + self._part.kernels.start
        begins, ends = first[gap] + self._part.kernels.start, last[gap] + self._part.kernels.start
        return _Waits(entry, self._part.awaited[entry], begins, ends, gap)
