"""When all instructions that a part executes start and end: their events by number, and times of classes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine import NOTHING, ClassTiming, GroupTiming, LinkedPart
from simcluster.number_arrays import Ints

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
        first: dict[int, int] = {}
        entries, kernels = [], []
        first_entries = part.bases + part.begins[:-1]
        count = known = 0
        for code, places in executions.items():
            own_entries = part.codes[code]
            streams = np.array([number[stream] for stream in own_entries.streams], dtype=np.int64)
            streams = streams[own_entries.stream_of]
            entries.append((first_entries[places][:, streams] + own_entries.entry).ravel())
            own = np.cumsum(streams == part.compute)
            kernels.append(np.tile(np.where(streams == part.compute, known + own - 1, NOTHING), len(places)))
            known += int(own[-1])
            first[code] = count
            count += len(entries[-1])
        nothing = np.zeros(0, dtype=np.int64)
        entry, kernel = (np.concatenate([nothing, *columns]) for columns in (entries, kernels))
        return cls(part, executions, first, count, entry, kernel)

    @property
    def zero(self) -> int:
        """The number of time 0."""
        return 3 * self.count

    def times(self, events: Ints, timing: GroupTiming, columns: slice) -> Ints:
        """When some events happen to some classes of a group that runs the part (ns) [events, classes]."""
        if len(events) >= self.count:
            return self._times(slice(None), timing, columns)[events]
        kind, instruction = np.divmod(events, self.count)
        known = self._times(instruction, timing, columns)
        return known[np.where(events == self.zero, -1, kind * len(events) + np.arange(len(events)))]

    def _times(self, chosen: Ints | slice, timing: GroupTiming, columns: slice) -> Ints:
        """When chosen instructions start, then when they end, then their arrivals; and time 0."""
        entry, kernel, place = (known[chosen] for known in (self.entry, self.kernel, self.place_in_entry))
        count, width = len(entry), timing.ends[:1, columns].shape[1]
        times = np.zeros((3 * count + 1, width), dtype=np.int64)
        by_event = times[:-1].reshape(3, count, width)
        by_event[ARRIVAL], by_event[START] = timing.begins(entry, columns)
        by_event[END] = timing.ends[entry, columns]
        rows = np.flatnonzero(kernel != NOTHING)
        entry, kernel, place = entry[rows], kernel[rows], place[rows]
        begun = by_event[START][rows]
        # A kernel starts when the one before it in its entry ends.
        for event, within, before in zip((START, END), _within_entries(timing, columns), (1, 0), strict=True):
            by_event[event][rows] = begun + within[kernel]
            if timing.slowed:
                _slow(by_event[event], rows, entry, place - before, timing, columns)
        by_event[ARRIVAL][rows] = by_event[START][rows]
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
    begin of their entries: two arrays [kernels, classes], or [kernels, 1] if they are the same for all.
    """
    segments = timing.group.part.segments
    prices = [timing.group.codes[code].duration[own] for code, own in segments.kernels]
    every = np.concatenate([np.zeros((1, prices[0].shape[1] if prices else 1), dtype=np.int64), *prices])
    ends = np.cumsum(every if every.shape[1] == 1 else every[:, columns], axis=0)
    begun = np.repeat(ends[segments.first[:-1]], np.diff(segments.first), axis=0)
    return ends[:-1] - begun, ends[1:] - begun


def _slow(times: Ints, rows: Ints, entry: Ints, place: Ints, timing: GroupTiming, columns: slice) -> None:
    """Corrects the ``times`` at which kernels end, in those classes and entries that communication slowed.

    The kernels of some ``rows`` are in an ``entry`` each, at a ``place`` in it: -1 is none.
    """
    part = timing.group.part
    for column, number in enumerate(range(timing.ends.shape[1])[columns]):
        slowed = timing.slowed.get(number)
        if slowed is not None:
            first = np.full(part.num_entries, NOTHING, dtype=np.int64)
            first[part.kernels.start + slowed.entries] = slowed.first
            own = np.flatnonzero((first[entry] != NOTHING) & (place >= 0))
            times[rows[own], column] = slowed.kernel_ends[first[entry[own]] + place[own]]
