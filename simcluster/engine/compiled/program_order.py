"""Many classes in program order: where no kernel gives way and nobody shares a link, time needs no events.

All classes of a group do the same, so an entry is timed for all of them at once, as a column: it starts when
the last of what it waits for is over. Any order that respects the waits gives the same times, those of the
events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import reduce
from itertools import pairwise

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.communication import NEVER, Links, Transfer
from simcluster.engine.compiled.arrays import NONE, Arrays, Records
from simcluster.engine.compiled.link_demand import flows_alone
from simcluster.engine.compiled.tables import GroupRows
from simcluster.engine.linking import NOTHING
from simcluster.engine.pricing import PricedClasses, PricedGroup
from simcluster.engine.progress import Progress
from simcluster.engine.timing import StreamTimes
from simcluster.number_arrays import Ints


class OnlyEventsTellError(Exception):
    """Who comes last decides how long a collective or transfer takes, or somebody never comes."""


def time_in_program_order(
    classes: PricedClasses,
    rows: Sequence[GroupRows],
    arrays: Arrays,
    transfers: Sequence[Transfer],
    links: Links,
    progress: Progress,
) -> tuple[int, int] | None:
    """Records the times of all entries as if every flow had its links to itself; None if even so only events
    can say what happens. Says up to which time (ns) they are right, and how many flows there are.
    """
    alone = np.array([*(links.alone(transfer) for transfer in transfers), 0], dtype=np.int64)
    if alone.max() >= NEVER:
        return None
    meetings: dict[bytes, _Meeting] = {}
    lanes: list[_Lane] = []
    done, before = 0, -1
    try:
        for group, own in zip(classes.groups, rows, strict=True):
            lanes += _add_lanes(group, own, arrays, alone, meetings)
        if sum(lane.longest for lane in lanes) >= NEVER:
            return None  # times may be more than 64 bits hold
        while done > before:
            before = done
            for lane in lanes:
                while lane.is_ready():
                    done += lane.run()
            progress.update(done, 0)
    except OnlyEventsTellError:
        return None
    if done < classes.num_entries:
        return None
    num_flows, overload = flows_alone(classes.groups, rows, arrays, transfers, links)
    return overload - 1, num_flows


@dataclass
class _Group:
    """A group in time: by entry the row of its end as in ``GroupTiming``, its stream, the kind of what it
    does, all that it waits for, and whether it is over; by stream its lanes.
    """

    rows: Sequence[int]
    stream_of: Sequence[int]
    kind_of: Sequence[int]
    awaited: Sequence[Sequence[int]]
    over: bytearray
    lanes: list[_Lane] = field(default_factory=list)


@dataclass(eq=False)
class _Lane:
    """One stream of all classes of a group from its next ``entry`` to its ``end``: its times; by kind of what
    it does, for those who always meet, nanoseconds, and, if that is no kernels, records and the meeting. If
    there is an ``arrival``, it waits for those whom it meets since then.
    """

    group: _Group
    entry: int
    end: int
    times: StreamTimes
    spent: Sequence[Ints]
    kinds: Sequence[Records]
    meetings: Sequence[_Meeting]
    arrival: Ints | None = None

    def __post_init__(self) -> None:
        self.group.lanes.append(self)
        self.sizes = np.bincount(self.times.meeting)
        self.order = np.argsort(self.times.meeting, kind="stable")
        self._longest: dict[int, Ints] = {}
        for meeting in self.meetings:
            meeting.lanes[self] = None

    @property
    def longest(self) -> int:
        """Nanoseconds that the stream takes at most by itself."""
        most = [*(int(spent.max(initial=0)) for spent in self.spent), 0]
        return sum(map(most.__getitem__, self.group.kind_of[self.entry : self.end]))

    def is_ready(self) -> bool:
        """Whether what the next entry waits for is over."""
        goes_on = self.arrival is None and self.entry < self.end
        return goes_on and all(map(self.group.over.__getitem__, self.group.awaited[self.entry]))

    def run(self) -> int:
        """Times the next entry, if nobody else is still to come; says how many entries of classes ended."""
        if self.group.rows[self.entry] == NOTHING:
            return self._go_on()
        ends = [*map(self._end, self.group.awaited[self.entry])] or [np.zeros_like(self.sizes)]
        ready = ends[0] if len(ends) == 1 else reduce(np.maximum, ends)
        if not self.meetings:
            return self.finish(ready)
        self.arrival = ready
        return self.meetings[self.group.kind_of[self.entry]].arrive()

    def finish(self, starts: Ints) -> int:
        """The entry starts so, and is over for all classes."""
        spent, row = self.spent[self.group.kind_of[self.entry]], self.group.rows[self.entry]
        if self.meetings:
            self.times.starts[row] = starts
        np.add(starts, spent, out=self.times.ends[row])
        return self._go_on()

    def _go_on(self) -> int:
        self.group.over[self.entry] = 1
        self.entry, self.arrival = self.entry + 1, None
        return len(self.order)

    def _end(self, entry: int) -> Ints:
        """When an entry was over for all classes of each meeting."""
        group = self.group
        lane, row, kind = group.lanes[group.stream_of[entry]], group.rows[entry], group.kind_of[entry]
        if row != NOTHING:
            ends = lane.times.ends[row]
            return ends if lane is self else self._latest(ends.take(lane.times.meeting))
        before = group.awaited[entry][-1]
        kernels, lane = lane, group.lanes[group.stream_of[before]]
        ends = lane.times.ends[group.rows[before]]
        if lane is not self:
            return self._latest(ends.take(lane.times.meeting) + kernels.spent[kind])
        if kind not in self._longest:
            self._longest[kind] = self._latest(kernels.spent[kind])
        return ends + self._longest[kind]

    def _latest(self, times: Ints) -> Ints:
        """The last of the times of all classes of each meeting."""
        first = np.cumsum(self.sizes) - self.sizes
        return np.maximum.reduceat(times.take(self.order), first) if self.meetings else times


class _Meeting:
    """Lanes that meet, each with all of its classes."""

    def __init__(self) -> None:
        self.lanes: dict[_Lane, None] = {}
        self._arrived = 0
        self._ways: dict[tuple[int, ...], tuple[Ints, Ints, Sequence[Ints]]] = {}

    def arrive(self) -> int:
        """A lane is there; the last one ends the entries of all."""
        self._arrived += 1
        if self._arrived < len(self.lanes):
            return 0
        self._arrived = 0
        kinds = tuple(lane.group.kind_of[lane.entry] for lane in self.lanes)
        if kinds not in self._ways:
            self._ways[kinds] = self._way(kinds)
        order, first, which = self._ways[kinds]
        arrivals: list[Ints] = [lane.arrival for lane in self.lanes if lane.arrival is not None]
        if order.size:
            met = np.maximum.reduceat(np.concatenate(arrivals).take(order), first)
            arrivals = [met.take(own) for own in which]
        return sum(map(_Lane.finish, self.lanes, arrivals))

    def _way(self, kinds: tuple[int, ...]) -> tuple[Ints, Ints, Sequence[Ints]]:
        """If lanes meet in these kinds: the order in which those of one slot are together, where these begin,
        and by lane in which slot they are; an empty order if all are by themselves.
        """
        coming = list(zip(self.lanes, kinds, strict=True))
        records = np.concatenate([lane.kinds[kind] for lane, kind in coming])
        spent = np.concatenate([lane.spent[kind] for lane, kind in coming])
        sizes = np.concatenate([lane.sizes for lane in self.lanes])
        _, which, counts = np.unique(records["slot"], return_inverse=True, return_counts=True)
        order = np.argsort(which, kind="stable")
        first = np.cumsum(counts) - counts
        met = np.add.reduceat(sizes[order], first)
        if (met[which] != records["size"]).any() or (spent != spent[order][first][which]).any():
            raise OnlyEventsTellError
        lengths = np.cumsum([len(lane.sizes) for lane in self.lanes])
        alone = len(first) == len(order) == lengths[0]
        return order[alone * len(order) :], first, np.split(which, lengths[:-1])


def _add_lanes(
    group: PricedGroup, own: GroupRows, arrays: Arrays, alone: Ints, meetings: dict[bytes, _Meeting]
) -> Sequence[_Lane]:
    """The lanes of a group."""
    part = group.part
    awaited, before = part.awaited.tolist(), part.previous.tolist()
    lists = zip(before, pairwise(part.first_wait.tolist()), strict=True)
    waits = [[first] * (first != NOTHING) + awaited[slice(*of_entry)] for first, of_entry in lists]
    columns = own.recorded.tolist(), part.stream_of.tolist(), part.kind_of.tolist()
    in_time = _Group(*columns, waits, bytearray(part.num_entries))
    for number, (records, times) in enumerate(zip(own.kinds, own.times(arrays), strict=True)):
        begin, end = part.begins[number : number + 2].tolist()
        if number == part.compute:
            _Lane(in_time, begin, end, times, [*group.segment_times], (), ())
            continue
        spent = np.where(records["transfer"] == NONE, records["time"], alone[records["transfer"]])
        first = np.unique(times.meeting, return_index=True)[1]
        if (spent != spent[first][times.meeting]).any():
            raise OnlyEventsTellError
        met = [meetings.setdefault(np.unique(own).tobytes(), _Meeting()) for own in records["slot"].T]
        _Lane(in_time, begin, end, times, [*spent[first].T.copy()], [*records[first].T], met)
    return in_time.lanes
