"""Many classes in program order: where no kernel gives way and nobody shares a link, time needs no events.

All classes of a group do the same, so an entry is timed for all of them at once, as a column: it starts when
the last of what it waits for is over. Any order that respects the waits gives the same times, those of the
events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import pairwise

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.communication import NEVER, Links, Transfer
from simcluster.engine.compiled.arrays import NONE, Arrays, Records
from simcluster.engine.compiled.link_demand import flows_alone
from simcluster.engine.compiled.tables import GroupRows
from simcluster.engine.pricing import PricedClasses, PricedGroup
from simcluster.engine.progress import Progress
from simcluster.engine.timing import CommunicationStarts
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
    lanes = [
        lane
        for group, own in zip(classes.groups, rows, strict=True)
        for lane in _lanes(group, own, arrays, alone, meetings)
    ]
    if sum(lane.longest for lane in lanes) >= NEVER:
        return None  # times may be more than 64 bits hold
    done, before = 0, -1
    try:
        while done > before:
            before = done
            for lane in lanes:
                while lane.is_ready():
                    done += lane.run()
            progress.update(done, lanes[-1].reached)
    except OnlyEventsTellError:
        return None
    if any(lane.entry < lane.end for lane in lanes):
        return None
    progress.update(done, max(lane.reached for lane in lanes))
    num_flows, overload = flows_alone(classes.groups, rows, arrays, transfers, links)
    return overload - 1, num_flows


@dataclass
class _Columns:
    """A group in time: its ends [entries + 1, classes] as in ``GroupTiming``; by entry those that it waits
    for, what it does as in ``entries``, and whether it is over.
    """

    ends: Ints
    awaited: Sequence[Sequence[int]]
    does: list[int]
    over: bytearray


@dataclass(eq=False)
class _Lane:
    """One stream of all classes of a group: where it begins, and ends; by what it does nanoseconds by class,
    and, if that is no kernels, the records of the classes, the meeting, and when it ``begun``. The ``entry``
    comes next; if there is an ``arrival``, it waits for those whom it meets since then.
    """

    columns: _Columns
    begin: int
    end: int
    spent: Sequence[Ints]
    kinds: Sequence[Records]
    meetings: Sequence[_Meeting]
    begun: CommunicationStarts
    entry: int = field(init=False)
    arrival: Ints | None = None

    def __post_init__(self) -> None:
        self.entry = self.begin
        for meeting in self.meetings:
            meeting.lanes[self] = None

    @property
    def longest(self) -> int:
        """Nanoseconds that the stream takes at most by itself."""
        most = [*(int(spent.max(initial=0)) for spent in self.spent), 0]
        return sum(map(most.__getitem__, self.columns.does[self.begin : self.end]))

    @property
    def reached(self) -> int:
        """A time (ns) at which an entry is over."""
        return int(self.columns.ends[self.entry - 1].max()) if self.entry > self.begin else 0

    def is_ready(self) -> bool:
        """Whether what the next entry waits for is over."""
        if self.arrival is not None or self.entry == self.end:
            return False
        return all(map(self.columns.over.__getitem__, self.columns.awaited[self.entry]))

    def run(self) -> int:
        """Times the next entry, if nobody else is still to come; says how many entries of classes ended."""
        ends, entry = self.columns.ends, self.entry
        ready = ends[entry - 1 if entry > self.begin else NONE]
        for awaited in self.columns.awaited[entry]:
            ready = np.maximum(ready, ends[awaited], out=ends[entry])
        if not self.meetings:
            return self.finish(ready)
        self.arrival = ready
        return self.meetings[self.columns.does[entry]].arrive()

    def finish(self, starts: Ints) -> int:
        """The entry starts so, and is over for all classes."""
        columns, entry = self.columns, self.entry
        np.add(starts, self.spent[columns.does[entry]], out=columns.ends[entry])
        columns.over[entry] = 1
        self.entry, self.arrival = entry + 1, None
        return columns.ends.shape[1]


class _Meeting:
    """Lanes that meet, each with all of its classes."""

    def __init__(self) -> None:
        self.lanes: dict[_Lane, None] = {}
        self._arrived = 0
        self._ways: dict[tuple[int, ...], tuple[Ints, Ints, list[tuple[Ints, Ints]]]] = {}

    def arrive(self) -> int:
        """A lane is there; the last one ends the entries of all."""
        self._arrived += 1
        if self._arrived < len(self.lanes):
            return 0
        self._arrived = 0
        kinds = tuple(lane.columns.does[lane.entry] for lane in self.lanes)
        if kinds not in self._ways:
            self._ways[kinds] = self._way(kinds)
        order, first, which = self._ways[kinds]
        arrivals = np.concatenate([lane.arrival for lane in self.lanes])
        met = np.maximum.reduceat(arrivals.take(order), first)
        done = 0
        for lane, (own, told) in zip(self.lanes, which, strict=True):
            # Other modes make a copy.
            met.take(told, out=lane.begun.times[lane.entry - lane.begin], mode="clip")
            done += lane.finish(met.take(own, out=lane.columns.ends[lane.entry], mode="clip"))
        return done

    def _way(self, kinds: tuple[int, ...]) -> tuple[Ints, Ints, list[tuple[Ints, Ints]]]:
        """If lanes meet in these kinds: the order of all classes in which those who meet are together, where
        each of these begins, and by lane which of them its classes are in, and those whose start it tells.
        """
        coming = list(zip(self.lanes, kinds, strict=True))
        records = np.concatenate([lane.kinds[kind] for lane, kind in coming])
        spent = np.concatenate([lane.spent[kind] for lane, kind in coming])
        _, which, counts = np.unique(records["slot"], return_inverse=True, return_counts=True)
        order = np.argsort(which, kind="stable")
        first = np.cumsum(counts) - counts
        if (counts[which] != records["size"]).any() or (spent != spent[order][first][which]).any():
            raise OnlyEventsTellError
        lengths = np.cumsum([len(lane.spent[kind]) for lane, kind in coming])
        ways = []
        for lane, own in zip(self.lanes, np.split(which, lengths[:-1]), strict=True):
            _, tells = np.unique(lane.begun.meeting, return_index=True)
            ways.append((own, own[tells]))
        return order, first, ways


def _lanes(
    group: PricedGroup, own: GroupRows, arrays: Arrays, alone: Ints, meetings: dict[bytes, _Meeting]
) -> Iterator[_Lane]:
    """The lanes of a group."""
    part = group.part
    awaited = part.awaited.tolist()
    waits = [awaited[first:last] for first, last in pairwise(part.first_wait.tolist())]
    columns = _Columns(own.ends(arrays), waits, part.does.tolist(), bytearray(part.num_entries))
    for number, (records, begun) in enumerate(zip(own.kinds, own.starts(arrays), strict=True)):
        begin, end = part.begins[number : number + 2].tolist()
        if number == part.compute:
            different, which = group.kernels()
            spent = np.stack([part.segments.durations(kernels) for kernels in different])[which].T.copy()
            yield _Lane(columns, begin, end, [*spent], (), (), begun)
            continue
        spent = np.where(records["transfer"] == NONE, records["time"], alone[records["transfer"]]).T.copy()
        keys = [np.unique(slots).tobytes() for slots in records["slot"].T]
        met = [meetings.setdefault(key, _Meeting()) for key in keys]
        yield _Lane(columns, begin, end, [*spent], [*records.T], met, begun)
