"""Whether flows that were timed as if each were alone leave one another all that they want of every link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.communication import Links, Transfer
from simcluster.engine.compiled.arrays import NEVER, NONE, Arrays
from simcluster.engine.compiled.tables import GroupRows
from simcluster.engine.pricing import PricedGroup
from simcluster.number_arrays import Floats, Ints, offsets, rows_of_lists

SLACK = 2.0**-30
"""Part of the capacity within which a link that several share counts as full.

Far more than float sums of rates can lose: below it, sharing gives all of them the very rate they have alone.
"""

WATCHED = 2**12
"""Links that are watched at once."""

EXACT = 2.0**52
"""Sums of whole numbers up to this are exact."""


@dataclass(frozen=True)
class _Phases:
    """The phases of all transfers: those of transfer ``t`` are ``first[t]:first[t + 1]``.

    ``begin`` and ``end`` are nanoseconds after a transfer starts, ``rate`` bytes/s.
    """

    first: Ints
    vector: Ints
    begin: Ints
    end: Ints
    rate: Floats

    @classmethod
    def of(cls, transfers: Sequence[Transfer], links: Links) -> _Phases:
        phases = [
            (phase.vector, begin, end, min(phase.cap, links.rates[phase.vector]))
            for transfer in transfers
            for times in [links.times(transfer)]
            for phase, begin, end in zip(transfer.phases, times, times[1:], strict=False)
        ]
        first = offsets([len(transfer.phases) for transfer in transfers])
        vector, begin, end = np.array([phase[:3] for phase in phases], dtype=np.int64).reshape(-1, 3).T
        return cls(first, vector, begin, end, np.array([rate for *_, rate in phases], dtype=np.float64))

    def loads(self, transfers: Ints, links: Links) -> tuple[Ints, Ints, Ints, Floats]:
        """(place in ``transfers``, phase, link, bytes/s) of all that transfers load."""
        place, phase = rows_of_lists(self.first, transfers)
        own, row = rows_of_lists(links.vectors.offsets, self.vector[phase])
        which, vectors = phase[own], links.vectors
        return place[own], which, vectors.links[row], self.rate[which] * vectors.loads[row]


class Demand(NamedTuple):
    """From ``begin`` to before ``end`` (ns) something takes a ``rate`` (bytes/s) of a ``link``."""

    link: Ints
    begin: Ints
    end: Ints
    rate: Floats


@dataclass(frozen=True)
class _Flows:
    """One kind of communication of the classes of a group, each flow told once: the ``slots`` and the
    ``transfers`` of those who tell it, and the rows and columns of the times of a stream at which it starts.
    """

    slots: Ints
    transfers: Ints
    times: Ints
    rows: Ints
    columns: Ints

    def starts(self, places: Ints) -> Ints:
        """The times [rows, places] at which some of those who tell it start."""
        return self.times[self.rows[:, np.newaxis], self.columns[places]]


def flows_alone(
    groups: Sequence[PricedGroup],
    rows: Sequence[GroupRows],
    arrays: Arrays,
    transfers: Sequence[Transfer],
    links: Links,
) -> tuple[int, int]:
    """How many flows there are, of transfers that start as ``arrays`` says; and the first time (ns) at which
    one may keep another from the rate that it has alone, ``NEVER`` if none does.
    """
    phases = _Phases.of(transfers, links)
    flows = list(_flows(groups, rows, arrays))
    count = sum(len(kind.rows) * int(np.diff(phases.first)[kind.transfers].sum()) for kind in flows)
    return count, _first_overload(flows, phases, links) if flows else NEVER


def _flows(groups: Sequence[PricedGroup], rows: Sequence[GroupRows], arrays: Arrays) -> Iterator[_Flows]:
    tellers = np.full(len(arrays.slots), NONE)
    for group, own in zip(groups, rows, strict=True):
        times = own.times(arrays)
        for number, kinds in enumerate(own.kinds):
            if not kinds.size:
                continue
            which, begun = group.part.streams[number].kind_of, times[number]
            streams = own.streams + number
            for kind in range(kinds.shape[1]):
                slots, carried = kinds["slot"][:, kind], kinds["transfer"][:, kind]
                nobody = np.flatnonzero(tellers[slots] == NONE)[::-1]
                tellers[slots[nobody]] = streams[nobody]  # of equal slots the last one in this order stays
                telling = np.flatnonzero((tellers[slots] == streams) & (carried != NONE))
                if telling.size:
                    entries = np.flatnonzero(which == kind)
                    columns = begun.meeting[telling]
                    yield _Flows(slots[telling], carried[telling], begun.starts, entries, columns)


def _first_overload(flows: Sequence[_Flows], phases: _Phases, links: Links) -> int:
    crowded = first_overloads(_windows(flows, phases, links), links.capacity)
    least = NEVER
    # A part of the links after another: all flows on all of them may be many.
    part_of = np.cumsum(crowded < NEVER) // WATCHED
    for part in range(int(part_of.max(initial=0)) + 1):
        demands = []
        for kind in flows:
            place, phase, link, rate = phases.loads(kind.transfers, links)
            watched = np.flatnonzero((crowded[link] < NEVER) & (part_of[link] == part))
            place, phase, link, rate = place[watched], phase[watched], link[watched], rate[watched]
            starts = kind.starts(place)
            begin, end = starts + phases.begin[phase], starts + phases.end[phase]
            end = np.maximum(end, begin + 1)
            entry, row = np.nonzero(end > crowded[link])
            demands.append(Demand(link[row], begin[entry, row], end[entry, row], rate[row]))
        together = Demand(*map(np.concatenate, zip(*demands, strict=True)))
        least = min(least, int(first_overloads(together, links.capacity).min(initial=NEVER)))
    return least


def _windows(flows: Sequence[_Flows], phases: _Phases, links: Links) -> Demand:
    """Who ever uses which link: from the first to the last time, as fast as ever."""
    users = []
    for kind in flows:
        place, phase, link, rate = phases.loads(kind.transfers, links)
        starts = kind.starts(np.arange(len(kind.slots)))
        begin, end = starts.min(axis=0)[place], starts.max(axis=0)[place]
        end = np.maximum(end + phases.end[phase], begin + 1)
        users.append((kind.slots[place], link, begin, end, rate))
    slot, link, begin, end, rate = map(np.concatenate, zip(*users, strict=True))
    order = np.lexsort((link, slot))
    first = np.flatnonzero(
        (np.diff(slot[order], prepend=NONE) != 0) | (np.diff(link[order], prepend=NONE) != 0)
    )
    joins = (np.minimum, begin), (np.maximum, end), (np.maximum, rate)
    return Demand(
        link[order][first], *(join.reduceat(column[order], first) for join, column in joins if len(first))
    )


def first_overloads(demand: Demand, capacity: Floats) -> Ints:
    """By link the first time (ns) from which on several fill it; ``NEVER`` if they never do."""
    # Whole numbers of bytes/s, and sums of them, are exact: then several may fill a link to the brim.
    whole = (np.rint(capacity) == capacity) & (capacity < EXACT)
    whole[demand.link[np.rint(demand.rate) != demand.rate]] = False
    room = np.where(whole, capacity, np.floor(capacity * (1 - SLACK))).astype(np.int64)
    taken = np.ceil(demand.rate).astype(np.int64)
    links, times = np.tile(demand.link, 2), np.concatenate([demand.begin, demand.end])
    changes = np.concatenate([taken, -taken])
    # Sorting by times, and these stably by small numbers, is faster than by both at once.
    order = np.argsort(times)
    order = order[np.argsort(links[order].astype(np.min_scalar_type(len(capacity))), kind="stable")]
    links, times, changes = links[order], times[order], changes[order]
    # The sums of every link begin and end at zero.
    level, users = np.cumsum(changes), np.cumsum(np.sign(changes))
    # What ends at an instant makes room for what begins then: only its last sum counts.
    lasts = np.append((np.diff(links) != 0) | (np.diff(times) != 0), True)[: len(links)]
    over = np.flatnonzero(lasts & (users > 1) & (level > room[links]))
    first = np.full(len(capacity), NEVER)
    np.minimum.at(first, links[over], times[over])
    return first
