"""What the engine hands back: when every entry of every class was ready, started and ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.linking import LinkedPart
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


NONE_SLOWED = SlowedSegments(*np.zeros((4, 0), dtype=np.int64))
"""Nothing is slowed."""


@dataclass(frozen=True)
class CommunicationStarts:
    """When the entries of a stream started that communicate: ``times`` [entries, meetings] of those classes
    who always meet, ``meeting`` [classes] says in which each is. Kernels start when they are ready.
    """

    times: Ints
    meeting: Ints


@dataclass(frozen=True)
class GroupTiming:
    """What the classes of a group did: when the entries of all streams, one stream after another as
    ``part.begins`` says, were over: ``ends`` [entries + 1, classes], the last row 0, the end of ``NOTHING``.

    ``communication_starts`` are by stream. ``slowed`` has the segments of those classes that have
    any.
    """

    group: PricedGroup
    communication_starts: Sequence[CommunicationStarts]
    ends: Ints
    slowed: Mapping[int, SlowedSegments]

    @property
    def end(self) -> int:
        """When the last entry of all ended."""
        lasts = self.group.part.begins[1:] - 1
        return int(self.ends[lasts[lasts >= 0]].max(initial=0))

    def ready(self, entries: Ints, columns: Ints | slice) -> Ints:
        """When some entries could start: when the one before, and those that each waits for, were over.

        Of the classes of a slice [entries, classes], or [entries] of a class for each.
        """
        part = self.group.part
        ready = self.ends[part.previous[entries], columns]
        for places, awaited in part.waits_of(entries):
            of_places = columns if isinstance(columns, slice) else columns[places]
            over = self.ends[awaited, of_places]
            if len(places) == len(entries):
                np.maximum(ready, over, out=ready)
            else:
                ready[places] = np.maximum(ready[places], over)
        return ready

    def begins(self, entries: Ints, columns: Ints | slice) -> tuple[Ints, Ints]:
        """When some entries could start, and when they did, both in these shapes."""
        part, ready = self.group.part, self.ready(entries, columns)
        streams, starts = part.stream_of[entries], np.empty_like(ready)
        for number in np.flatnonzero(np.bincount(streams)).tolist():
            own, begun = np.flatnonzero(streams == number), self.communication_starts[number]
            rows, meeting = entries[own] - part.begins[number], begun.meeting[columns]
            if number == part.compute:
                known = ready[own]
            elif isinstance(columns, slice):
                known = begun.times[rows].take(meeting, axis=1)
            else:
                known = begun.times[rows, meeting[own]]
            if len(own) == len(entries):
                return ready, known
            starts[own] = known
        return ready, starts

    def chosen(self, columns: Sequence[int]) -> GroupTiming:
        """The times of entries of some columns only."""
        begun = [CommunicationStarts(own.times, own.meeting[columns]) for own in self.communication_starts]
        return GroupTiming(self.group, begun, self.ends[:, columns], {})

    def are_alike(self, one: int, other: int) -> bool:
        """Whether two columns are certainly of classes that did everything at the same times."""
        if self.slowed.keys() & {one, other} or not np.array_equal(self.ends[:, one], self.ends[:, other]):
            return False
        return all(
            np.array_equal(*begun.times.T[begun.meeting[[one, other]]]) for begun in self.communication_starts
        )


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
        return self._streams(self.group.ends[:-1, self.columns])

    @property
    def stretched(self) -> Table:
        """Entry, start and end of every kernel of the segments that communication slowed, by entry."""
        slowed = self.group.slowed.get(self.column, NONE_SLOWED)
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
