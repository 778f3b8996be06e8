"""What the engine hands back: when every entry of every class was ready, started and ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.linking import NOTHING, LinkedPart
from simcluster.engine.pricing import PricedGroup
from simcluster.number_arrays import Ints
from simcluster.trace import Table


@dataclass(frozen=True, slots=True)
class SlowedSegments:
    """Segments of a class that communication slowed: their ``entries`` of the compute stream; the ends of the
    kernels of each are in ``kernel_ends``, the ``first`` and those behind it, so many as ``sizes`` says.
    """

    entries: Ints
    first: Ints
    sizes: Ints
    kernel_ends: Ints

    def table(self, starts: Ints) -> Table:
        """Entry, start and end of every kernel, of the ``starts`` of all entries of the stream."""
        before = np.cumsum(self.sizes) - self.sizes
        ends = self.kernel_ends[np.repeat(self.first - before, self.sizes) + np.arange(int(self.sizes.sum()))]
        begun = np.empty_like(ends)
        begun[1:] = ends[:-1]
        begun[before] = starts[self.entries]
        return Table({"entry": np.repeat(self.entries, self.sizes), "start": begun, "end": ends})


@dataclass(frozen=True)
class StreamTimes:
    """When the entries of a stream started and ended: [entries, meetings] of those classes who always meet,
    ``meeting`` [classes] says in which each is. Kernels start when they are ready, and meet nobody.
    """

    starts: Ints
    ends: Ints
    meeting: Ints


@dataclass(frozen=True)
class GroupTiming:
    """What the classes of a group did on its ``streams``; ``slowed`` has the segments of those classes that
    have any. Entries are those of all streams, one stream after another as ``part.begins`` says; ``rows`` are
    those of their times. Kernels that have none start when the only entry that they wait for ends, and take
    what ``segment_times`` [segments, classes] says.
    """

    group: PricedGroup
    streams: Sequence[StreamTimes]
    rows: Ints
    segment_times: Ints
    slowed: Mapping[int, SlowedSegments]

    @property
    def end(self) -> int:
        """When the last entry of all ended."""
        return int(self.ends(self.group.part.begins[1:] - 1).max(initial=0))

    def ends(self, entries: Ints, columns: Ints | slice = slice(None)) -> Ints:
        """When some entries were over, ``NOTHING`` at 0.

        Of the classes of a slice [entries, classes], or [entries] of a class for each.
        """
        part, recorded = self.group.part, entries.copy()
        behind = np.flatnonzero(self.rows[entries] == NOTHING)
        kind, waits = part.kind_of[entries[behind]], part.first_wait[entries[behind]]
        recorded[behind] = part.awaited[waits]
        ends = self._recorded([stream.ends for stream in self.streams], recorded, columns)
        if isinstance(columns, slice):
            ends[behind] += self.segment_times[:, columns][kind]
        else:
            ends[behind] += self.segment_times[kind, columns[behind]]
        return ends

    def starts(self, entries: Ints, columns: Ints | slice) -> Ints:
        """When some entries started that communicate, in these shapes."""
        return self._recorded([stream.starts for stream in self.streams], entries, columns)

    def ready(self, entries: Ints, columns: Ints | slice) -> Ints:
        """When some entries could start: when the one before, and those that each waits for, were over."""
        part = self.group.part
        ready = self.ends(part.previous[entries], columns)
        for places, awaited in part.waits_of(entries):
            of_places = columns if isinstance(columns, slice) else columns[places]
            ready[places] = np.maximum(ready[places], self.ends(awaited, of_places))
        return ready

    def begins(self, entries: Ints, columns: Ints | slice) -> tuple[Ints, Ints]:
        """When some entries could start, and when they did, both in these shapes."""
        ready = self.ready(entries, columns)
        starts, part = ready.copy(), self.group.part
        own = np.flatnonzero(part.stream_of[entries] != part.compute)
        of_own = columns if isinstance(columns, slice) else columns[own]
        starts[own] = self.starts(entries[own], of_own)
        return ready, starts

    def _recorded(self, recorded: Sequence[Ints], entries: Ints, columns: Ints | slice) -> Ints:
        """Of times ``recorded`` by stream those of some entries that have rows, those of ``NOTHING`` 0."""
        shape = (len(self.streams[0].meeting[columns]),) * isinstance(columns, slice)
        streams, times = self._stream_of[entries], np.empty((len(entries), *shape), dtype=np.int64)
        times[streams == NOTHING] = 0
        for number in np.flatnonzero(np.bincount(streams + 1)[1:]).tolist():
            own, meeting = np.flatnonzero(streams == number), self.streams[number].meeting[columns]
            rows = self.rows[entries[own]]
            if not isinstance(columns, slice):
                known = recorded[number][rows, meeting[own]]
            elif len(meeting) < recorded[number].shape[1]:
                known = recorded[number][rows[:, np.newaxis], meeting]
            else:
                known = recorded[number].take(rows, axis=0)
                if not np.array_equal(meeting, np.arange(len(known.T))):
                    known = known.take(meeting, axis=1)
            if len(own) == len(entries):
                return known
            times[own] = known
        return times

    @cached_property
    def _stream_of(self) -> Ints:
        """By entry of all streams its stream; at the end that of ``NOTHING``."""
        return np.append(self.group.part.stream_of, NOTHING)

    def chosen(self, columns: Sequence[int]) -> GroupTiming:
        """The times of entries of some columns only."""
        streams = [StreamTimes(own.starts, own.ends, own.meeting[columns]) for own in self.streams]
        return GroupTiming(self.group, streams, self.rows, self.segment_times[:, columns], {})


@dataclass(frozen=True)
class ClassTiming:
    """What one class did: a column of what its group did."""

    group: GroupTiming
    column: int

    @property
    def columns(self) -> slice:
        """Its column in the arrays of its group."""
        return slice(self.column, self.column + 1)

    @property
    def part(self) -> LinkedPart:
        """What it ran."""
        return self.group.group.part

    def durations(self, code: int) -> Ints:
        """Nanoseconds of the instructions of a code; of communication, what it takes alone."""
        durations = self.group.group.codes[code].duration
        return durations[:, self.column % durations.shape[1]]

    @cached_property
    def starts(self) -> Sequence[Ints]:
        """By stream when every entry started."""
        return self._streams(self._begins[1])

    @cached_property
    def arrivals(self) -> Sequence[Ints]:
        """By stream when every entry was ready."""
        return self._streams(self._begins[0])

    @cached_property
    def ends(self) -> Sequence[Ints]:
        """By stream when every entry ended."""
        return self._streams(self.group.ends(np.arange(self.part.num_entries), self.columns))

    @property
    def stretched(self) -> Table:
        """Entry, start and end of every kernel of the segments that communication slowed, by entry."""
        slowed = self.group.slowed.get(self.column) or SlowedSegments(*np.zeros((4, 0), dtype=np.int64))
        return slowed.table(self.starts[self.part.compute])

    @cached_property
    def _begins(self) -> tuple[Ints, Ints]:
        return self.group.begins(np.arange(self.part.num_entries), self.columns)

    def _streams(self, times: Ints) -> Sequence[Ints]:
        return np.split(times[:, 0], self.part.begins[1:-1])


@dataclass(frozen=True)
class Timing:
    """What all classes did, and the number of entries run.

    ``num_flows`` counts what was carried over shared links, ``num_solves`` how often rates were worked out
    anew where flows shared one, ``num_rates`` how many rates were found in doing so.
    """

    groups: Sequence[GroupTiming]
    num_events: int
    num_flows: int = 0
    num_solves: int = 0
    num_rates: int = 0

    @cached_property
    def end(self) -> int:
        """When the last of them ended (ns)."""
        return max((group.end for group in self.groups), default=0)

    @cached_property
    def classes(self) -> Sequence[ClassTiming]:
        """What every class did."""
        by_class = {
            index: ClassTiming(group, column)
            for group in self.groups
            for column, index in enumerate(group.group.indices)
        }
        return [by_class[index] for index in range(len(by_class))]

    @property
    def many(self) -> bool:
        """Whether there are many classes beside each other: their tables would be very large."""
        return any(timing.group.many for timing in self.groups)
