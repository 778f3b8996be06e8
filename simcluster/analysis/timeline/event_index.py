"""When all instructions that a part executes start and end: their events by number, and times of classes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine import NOTHING, ClassTiming, GroupTiming, LinkedPart
from simcluster.number_arrays import Ints, offsets

START, END, ARRIVAL = range(3)
"""Events of an instruction: it starts, ends, could have begun. Kernels are ready when they start."""


@dataclass(frozen=True)
class EventIndex:
    """Numbers for all events of the instructions that a part executes, and for time 0, which is ``zero``.

    Instructions are numbered code by code, those of a code [executions, instructions]; their events are
    ``START``, ``END`` and ``ARRIVAL`` x ``count`` + this number.
    """

    part: LinkedPart
    executions: Mapping[int, Ints]
    """By code: its executions."""
    first: Mapping[int, int]
    """By code: the number of its first instruction."""
    count: int
    """How many instructions are executed."""
    entry: Ints
    """By instruction: its entry among those of all streams."""
    kernel: Ints
    """By instruction: its number among the kernels of the part's segments, or ``NOTHING``."""

    @classmethod
    def of(cls, part: LinkedPart) -> EventIndex:
        """The numbers of all events of a part."""
        number = {stream.name: index for index, stream in enumerate(part.streams)}
        executions = part.by_code()
        starts = offsets([len(places) * len(part.codes[code].entry) for code, places in executions.items()])
        entry, kernel = np.empty((2, starts[-1]), dtype=np.int64)
        first_entries = part.bases + part.begins[:-1]
        known = 0
        for begin, (code, places) in zip(starts.tolist(), executions.items(), strict=False):
            own = part.codes[code]
            shape = len(places), len(own.entry)
            rows = slice(begin, begin + shape[0] * shape[1])
            streams = np.array([number[stream] for stream in own.streams], dtype=np.int64)[own.stream_of]
            bases = first_entries[places].take(streams, axis=1)
            np.add(bases, own.entry, out=entry[rows].reshape(shape))
            among = np.cumsum(streams == part.compute)
            kernel[rows].reshape(shape)[:] = np.where(streams == part.compute, known + among - 1, NOTHING)
            known += int(among[-1])
        first = dict(zip(executions, starts.tolist(), strict=False))
        return cls(part, executions, first, int(starts[-1]), entry, kernel)

    @property
    def zero(self) -> int:
        """The number of time 0."""
        return 3 * self.count

    def times(self, events: Ints, timing: GroupTiming, columns: slice) -> Ints:
        """When some events happen to some classes of a group that runs the part (ns) [events, classes]."""
        if len(events) >= self.count:
            return self._times(slice(None), timing, columns).take(events, axis=0)
        kind, instruction = np.divmod(events, self.count)
        known = self._times(instruction, timing, columns)
        return known[np.where(events == self.zero, -1, kind * len(events) + np.arange(len(events)))]

    def _times(self, chosen: Ints | slice, timing: GroupTiming, columns: slice) -> Ints:
        """When chosen instructions start, then when they end, then their arrivals; and time 0."""
        entry, kernel = self.entry[chosen], self.kernel[chosen]
        count, width = len(entry), len(timing.group.indices[columns])
        times = np.zeros((3 * count + 1, width), dtype=np.int64)
        start, end, arrival = times[:-1].reshape(3, count, width)
        # Entries of many kernels are looked at once.
        looked_at = np.arange(self.part.num_entries) if isinstance(chosen, slice) else entry
        of_entry = entry if isinstance(chosen, slice) else np.arange(count)
        ready, begun = timing.begins(looked_at, columns)
        starts, ends = _within_entries(timing, columns)
        np.take(begun, of_entry, axis=0, out=end)
        np.add(end, starts.take(kernel, axis=0), out=start)
        end += ends.take(kernel, axis=0)
        if timing.slowed:
            _slow(start, end, entry, self.place_in_entry[chosen], timing, columns)
        arrival[:] = start
        others = np.flatnonzero(kernel == NOTHING)
        end[others], arrival[others] = timing.ends(entry[others], columns), ready[of_entry[others]]
        return times

    @cached_property
    def place_in_entry(self) -> Ints:
        """By instruction how many kernels of its entry run before it; 0 where it is none."""
        first = self.part.segments.first
        within = np.arange(first[-1]) - np.repeat(first[:-1], np.diff(first))
        return np.append(within, 0)[self.kernel]


@dataclass(frozen=True)
class InstructionTimes:
    """Start, end and arrival of every instruction of a code: arrays [executions, instructions]."""

    executions: Ints
    starts: Ints
    ends: Ints
    arrivals: Ints


def instruction_times(timing: ClassTiming) -> dict[int, InstructionTimes]:
    """Code -> when each of its instructions ran, for all executions of a class."""
    events = EventIndex.of(timing.part)
    times = events.times(np.arange(events.zero), timing.group, timing.columns).reshape(3, events.count)
    times_by_code = {}
    for code, executions in events.executions.items():
        shape = len(executions), len(events.part.codes[code].entry)
        own = times[:, events.first[code] :][:, : shape[0] * shape[1]]
        times_by_code[code] = InstructionTimes(executions, *(column.reshape(shape) for column in own))
    return times_by_code


def _within_entries(timing: GroupTiming, columns: slice) -> tuple[Ints, Ints]:
    """When the kernels of the part's segments start and end where nothing slows them, in nanoseconds from the
    begin of their entries: two arrays [kernels + 1, classes], or [kernels + 1, 1] if they are the same for
    all. The last row is 0, for ``NOTHING``.
    """
    segments = timing.group.part.segments
    prices = [timing.group.codes[code].duration[own] for code, own in segments.kernels]
    none = np.zeros((1, prices[0].shape[1] if prices else 1), dtype=np.int64)
    every = np.concatenate([none, *prices, none])
    ends = np.cumsum(every if every.shape[1] == 1 else every[:, columns], axis=0)
    begun = np.repeat(ends[segments.first], np.append(np.diff(segments.first), 1), axis=0)
    return ends[:-1] - begun, ends[1:] - begun


def _slow(start: Ints, end: Ints, entry: Ints, place: Ints, timing: GroupTiming, columns: slice) -> None:
    """Corrects when instructions start and end, in those classes and entries that communication slowed; a
    kernel starts when the one before it in its entry ends. They are at a ``place`` in an ``entry`` each.
    """
    part = timing.group.part
    for column, number in enumerate(range(len(timing.group.indices))[columns]):
        slowed = timing.slowed.get(number)
        if slowed is not None:
            first = np.full(part.num_entries, NOTHING, dtype=np.int64)
            first[part.kernels.start + slowed.entries] = slowed.first
            own = np.flatnonzero((first != NOTHING)[entry])
            place_of, kernel = place[own], first[entry[own]] + place[own]
            end[own, column] = slowed.kernel_ends[kernel]
            later = np.flatnonzero(place_of)
            start[own[later], column] = slowed.kernel_ends[kernel[later] - 1]
