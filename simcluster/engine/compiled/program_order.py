"""Many classes in program order: where no kernel gives way and nobody shares a link, time needs no events.

All classes of a group do the same, so an entry is timed for all of them at once, as a column: it starts when
the last of what it waits for is over. Any order that respects the waits gives the same times, those of the
events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.communication import NEVER, Links, Transfer
from simcluster.engine.compiled.arrays import NONE, Arrays, Records
from simcluster.engine.compiled.link_demand import flows_alone
from simcluster.engine.compiled.tables import GroupRows
from simcluster.engine.pricing import PricedClasses, PricedGroup
from simcluster.engine.progress import Progress
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
    num_flows, overload = flows_alone(classes.groups, rows, arrays.begun, transfers, links)
    return overload - 1, num_flows


@dataclass
class _Columns:
    """A group in time: its times [entries + 1, classes] as in ``GroupTiming``; by entry what it waits for,
    what it does as in ``entries``, and whether it is over.
    """

    begun: Ints
    ends: Ints
    awaited: list[int]
    what: list[int]
    over: bytearray


@dataclass(eq=False)
class _Lane:
    """One stream of all classes of a group: where it begins, and ends; by what it does nanoseconds by class,
    and, if that is no kernels, the records of the classes and the meeting. The ``entry`` comes next; if it
    has ``arrived``, it waits for those whom it meets.
    """

    columns: _Columns
    begin: int
    end: int
    spent: Sequence[Ints]
    kinds: Sequence[Records]
    meetings: Sequence[_Meeting] | None
    entry: int = field(init=False)
    arrived: bool = False

    def __post_init__(self) -> None:
        self.entry = self.begin
        for meeting in self.meetings or ():
            meeting.lanes[self] = None

    @property
    def longest(self) -> int:
        """Nanoseconds that the stream takes at most by itself."""
        most = [*(int(spent.max(initial=0)) for spent in self.spent), 0]
        return sum(map(most.__getitem__, self.columns.what[self.begin : self.end]))

    @property
    def reached(self) -> int:
        """A time (ns) at which an entry is over."""
        return int(self.columns.ends[self.entry - 1].max()) if self.entry > self.begin else 0

    def is_ready(self) -> bool:
        """Whether what the next entry waits for is over."""
        if self.arrived or self.entry == self.end:
            return False
        awaited = self.columns.awaited[self.entry]
        return awaited == NONE or self.columns.over[awaited] == 1

    def run(self) -> int:
        """Times the next entry, if nobody else is still to come; says how many entries of classes ended."""
        columns, entry = self.columns, self.entry
        what, awaited = columns.what[entry], columns.awaited[entry]
        before = columns.ends[entry - 1] if entry > self.begin else 0
        # Whoever meets others is ready until it starts.
        ready = columns.ends[entry]
        np.maximum(before, columns.ends[awaited], out=ready)
        if self.meetings is not None:
            if what != NONE:
                self.arrived = True
                return self.meetings[what].arrive()
            columns.begun[entry] = ready
        return self.finish(ready, self.spent[what] if what != NONE else 0)

    def finish(self, starts: Ints, spent: Ints | int) -> int:
        """The entry is over for all classes, so long after it has started."""
        columns, entry = self.columns, self.entry
        np.add(starts, spent, out=columns.ends[entry])
        columns.over[entry] = 1
        self.entry, self.arrived = entry + 1, False
        return columns.ends.shape[1]


class _Meeting:
    """Lanes that meet, each with all of its classes."""

    def __init__(self) -> None:
        self.lanes: dict[_Lane, None] = {}
        self._arrived = 0
        self._ways: dict[tuple[int, ...], tuple[Ints, Ints, list[Ints]]] = {}

    def arrive(self) -> int:
        """A lane is there; the last one ends the entries of all."""
        self._arrived += 1
        if self._arrived < len(self.lanes):
            return 0
        self._arrived = 0
        kinds = tuple(lane.columns.what[lane.entry] for lane in self.lanes)
        if kinds not in self._ways:
            self._ways[kinds] = self._way(kinds)
        order, first, which = self._ways[kinds]
        arrivals = np.concatenate([lane.columns.ends[lane.entry] for lane in self.lanes])
        met = np.maximum.reduceat(arrivals.take(order), first)
        done = 0
        for lane, kind, own in zip(self.lanes, kinds, which, strict=True):
            starts = lane.columns.begun[lane.entry]
            met.take(own, out=starts, mode="clip")  # others make a copy
            done += lane.finish(starts, lane.spent[kind])
        return done

    def _way(self, kinds: tuple[int, ...]) -> tuple[Ints, Ints, list[Ints]]:
        """If lanes meet in these kinds: the order of all classes in which those who meet are together, where
        each of these begins, and by lane which of them its classes are in.
        """
        coming = list(zip(self.lanes, kinds, strict=True))
        records = np.concatenate([lane.kinds[kind] for lane, kind in coming])
        spent = np.concatenate([lane.spent[kind] for lane, kind in coming])
        _, which, counts = np.unique(records["slot"], return_inverse=True, return_counts=True)
        order = np.argsort(which, kind="stable")
        first = np.cumsum(counts) - counts
        if (counts[which] != records["size"]).any() or (spent != spent[order][first][which]).any():
            raise OnlyEventsTellError
        return order, first, np.split(which, np.cumsum([len(lane.spent[kind]) for lane, kind in coming])[:-1])


def _lanes(
    group: PricedGroup, own: GroupRows, arrays: Arrays, alone: Ints, meetings: dict[bytes, _Meeting]
) -> Iterator[_Lane]:
    """The lanes of a group."""
    part = group.part
    what = [part.segments.which if n == part.compute else part.kinds(n).which for n in range(len(own.kinds))]
    columns = _Columns(
        own.of_group(arrays.begun),
        own.of_group(arrays.ends),
        part.awaited.tolist(),
        np.concatenate(what).tolist(),
        bytearray(part.num_entries),
    )
    for number, records in enumerate(own.kinds):
        begin, end = part.begins[number : number + 2].tolist()
        if number == part.compute:
            different, which = group.kernels()
            spent = np.stack([part.segments.durations(kernels) for kernels in different])[which].T.copy()
            yield _Lane(columns, begin, end, [*spent], (), None)
            continue
        spent = np.where(records["transfer"] == NONE, records["time"], alone[records["transfer"]]).T.copy()
        keys = [np.unique(slots).tobytes() for slots in records["slot"].T]
        met = [meetings.setdefault(key, _Meeting()) for key in keys]
        yield _Lane(columns, begin, end, [*spent], [*records.T], met)
