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
from simcluster.number_arrays import Ints, rows_of_lists
from simcluster.program import charged_to, is_host_stream
from simcluster.trace import NameIndex, Table, number_by_appearance

PIPELINE_WAIT = "pipeline wait"
IDLE = "idle"

TOGETHER = 2**17
"""Times that are looked at together: so many stay in the processor's caches."""

FOLLOWED = 2**18
"""Pieces of gaps that are followed back together: 10 MB."""


class GapPieces(NamedTuple):
    """Pieces of gaps, each of one cause, by number.

    ``start`` and ``end`` are [gaps, classes], or [pieces] of the classes in ``column``; ``gap`` numbers the
    gaps of a class in the order of time. Pieces may be empty. ``entry`` is what is charged, of those of all
    streams of the part; ``NOTHING``: no entry is. Columns have the shape of ``start`` or are broadcast to it.
    """

    gap: Ints
    column: Ints
    start: Ints
    end: Ints
    cause: Ints
    entry: Ints

    def flat(self) -> GapPieces:
        """Those that are not empty, as [pieces]."""
        kept = self.end > self.start
        return GapPieces(*(np.broadcast_to(column, kept.shape)[kept] for column in self))


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
            gap, column, start, over, cause, _ = piece.flat()
            rows.append((classes[column], gap, start, over, cause))
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
    """Entries of the compute stream that wait for others, among those of all streams; ``awaited`` is what
    each waits for, ``turn`` numbers these waits of one entry, and ``more`` are behind it. If one alone is
    ``direct``, it was ready before the gap: kernels before that had waited for all that it waits for.
    """

    entry: Ints
    awaited: Ints
    turn: Ints
    more: Ints
    direct: Ints


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
        count, step = 0, max(1, TOGETHER // len(self.columns))
        begin, waits = 0, self._waits
        while begin < len(waits.entry):
            # The waits of one entry stay together.
            last = min(begin + step, len(waits.entry)) - 1
            behind = last + 1 + int(waits.more[last])
            left.append((yield from self._first_pieces(_Waits(*(column[begin:behind] for column in waits)))))
            count, begin = count + len(left[-1][0]), behind
            if count > FOLLOWED:
                yield from self._followed(left)
                left, count = [], 0
        left.append((yield from self._tail(end, num_stages)))
        yield from self._followed(left)

    def _first_pieces(self, rows: _Waits) -> Generator[GapPieces, None, tuple[Ints, ...]]:
        """The pieces due to the awaited entries themselves; gives what is left."""
        times, every = self._times, slice(None)
        # The first entry that prolonged a gap to its end is charged with all of it.
        since, until = times.ends(self._part.previous[rows.entry], every), times.ends(rows.awaited, every)
        if (rows.turn + rows.more).any():
            before = since.copy()
            for nth in range(1, int(rows.turn.max()) + 1):
                later = np.flatnonzero(rows.turn == nth)
                before[later] = np.maximum(before[later - 1], until[later - 1])
            early = np.flatnonzero(rows.more)
            ready = times.ready(rows.entry[early], every)
            until[early] = np.where(until[early] == ready, until[early], 0)
            until = np.where(until > before, until, since)
        np.maximum(until, since, out=until)
        gap, column = rows.entry - self._part.kernels.start, np.arange(len(self.columns))[None]
        begun = times.starts(rows.awaited, every)
        ready = since if rows.direct.all() else times.ready(rows.awaited, every)
        ready = yield from self._cut(gap[:, None], column, since, until, rows.awaited, ready, begun)
        row, column = np.nonzero(ready > since)
        return self._before(gap[row], column, since[row, column], ready[row, column], rows.awaited[row])

    def _followed(self, left: Sequence[tuple[Ints, ...]]) -> Iterator[GapPieces]:
        """The pieces of what is left of gaps, back through what the awaited entries had to wait for."""
        gap, column, since, until, entry = map(np.concatenate, zip(*left, strict=True))
        while len(gap):
            times = self._times.begins(entry, column)
            ready = yield from self._cut(gap, column, since, until, entry, *times)
            more = ready > since
            gap, column, since, until, entry = self._before(
                *(values[more] for values in (gap, column, since, ready, entry))
            )

    def _cut(
        self, gap: Ints, column: Ints, since: Ints, until: Ints, entry: Ints, ready: Ints, begun: Ints
    ) -> Generator[GapPieces, None, Ints]:
        """The pieces due to entries themselves, ``since`` and ``until`` when; gives where what is before them
        ends: when they were ``ready``, or ``since``.
        """
        begun = np.maximum(since, np.minimum(until, begun, out=begun), out=begun)
        # Ready but not started: the other members of the group are late. No kernel is.
        if ready is not since:
            ready = np.maximum(since, np.minimum(begun, ready, out=ready), out=ready)
        running, late = self._causes[:, self._part.stream_of[entry]]
        if since.ndim == 2:
            running, late, entry = running[:, None], late[:, None], entry[:, None]
        yield GapPieces(gap, column, begun, until, running, entry)
        yield GapPieces(gap, column, ready, begun, late, entry)
        return ready

    def _before(self, gap: Ints, column: Ints, since: Ints, until: Ints, entry: Ints) -> tuple[Ints, ...]:
        """What an entry waited for until it was ready: an awaited entry, or the one before on its stream."""
        waits, entry = self._part.waits_of(entry), self._part.previous[entry]
        for places, awaited in waits:
            late = self._times.ends(awaited, column[places]) >= until[places]
            entry[places[late]] = awaited[late]
        known = entry != NOTHING
        return tuple(values[known] for values in (gap, column, since, until, entry))

    def _tail(self, end: int, num_stages: int) -> Generator[GapPieces, None, tuple[Ints, ...]]:
        """From the last kernel to the end of the run: its own communication first, then the others. What the
        host does then is left: it is cut by what that waited for.
        """
        part = self._part
        lasts = self._times.ends(part.begins[1:] - 1)
        columns = np.arange(len(self.columns))
        has_kernels = self._part.kernels.stop > self._part.kernels.start
        idle = lasts[part.compute] if has_kernels else np.zeros(len(columns), dtype=np.int64)
        over, of = idle, np.full(len(columns), part.compute)
        streams = part.streams
        for number in sorted(range(len(streams)), key=lambda number: streams[number].name):
            if len(streams[number]) and number != part.compute:
                of, over = np.where(lasts[number] >= over, number, of), np.maximum(over, lasts[number])
        gap = np.full(len(columns), self._part.num_entries)
        rest = np.full(len(columns), self.causes.number(PIPELINE_WAIT if num_stages > 1 else IDLE))
        yield GapPieces(gap + 1, columns, over, np.full_like(over, end), rest, np.full_like(gap, NOTHING))
        entries = part.begins[of + 1] - 1
        by_host = np.array([is_host_stream(stream.name) for stream in streams])[of] & (over > idle)
        yield GapPieces(gap, columns, idle, np.where(by_host, idle, over), self._causes[0, of], entries)
        return tuple(values[by_host] for values in (gap, columns, idle, over, entries))

    @cached_property
    def _times(self) -> GroupTiming:
        """The times of these columns only."""
        return self.timing.chosen(self.columns)

    @property
    def _part(self) -> LinkedPart:
        return self.timing.group.part

    @cached_property
    def _causes(self) -> Ints:
        """What is charged by stream while its entries run, and while they are ready and others are not."""
        axes = [charged_to(stream.name, self.stage_axis) for stream in self._part.streams]
        running = [self.causes.number("+".join(own)) for own in axes]
        wait = self.causes.number(PIPELINE_WAIT)
        late = [wait if self.stage_axis in own else cause for own, cause in zip(axes, running, strict=True)]
        return np.array([running, late])

    @cached_property
    def _waits(self) -> _Waits:
        """What the entries of the compute stream wait for."""
        kernels, first = np.arange(self._part.kernels.start, self._part.kernels.stop), self._part.first_wait
        owner, waits = rows_of_lists(first, kernels)
        entry = kernels[owner]
        turn, more = waits - first[entry], first[entry + 1] - waits - 1
        awaited = self._part.awaited[waits]
        # Kernels behind which every entry is certainly over.
        over = np.append(np.full(self._part.num_entries, self._part.num_entries), NOTHING)
        np.minimum.at(over, awaited, entry)
        over[kernels] = kernels
        latest = over[self._part.previous[awaited]]
        for places, other in self._part.waits_of(awaited):
            latest[places] = np.maximum(latest[places], over[other])
        direct = np.where((latest < entry) & (turn + more == 0), 1, 0)
        # Those that are worked out alike are together.
        alike = self._part.stream_of[awaited], self._times.rows[self._part.previous[entry]] == NOTHING
        order = np.lexsort((*(own * direct for own in alike), direct))
        return _Waits(*(column[order] for column in (entry, awaited, turn, more, direct)))
