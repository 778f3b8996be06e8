"""The check behind a sweep (DESIGN 4.9): the first instant at which something flows otherwise than alone.

A sweep times all transfers as if each were alone on links that stay as they are at the start. Looked for is
the first instant at which that is not so, or may not be: on a link that several use at once whose demand
reaches its capacity, on a link whose capacity has changed, or where links are late for a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.fabric import NEVER, Links
from simcluster.engine.flights import Flights, Flown
from simcluster.engine.overload import SLACK, Demand, first_overload, with_instants

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def first_meeting(flights: Sequence[Flights], links: Links) -> int | None:
    """The first instant (ns) from which on flights may not be what they are alone on links; None: never."""
    return _Check(flights, links).run()


@dataclass
class _Check:
    flights: Sequence[Flights]
    links: Links

    def run(self) -> int | None:
        found = [
            *self._late(),
            *(time for time in (self._overload(), self._changed()) if time is not None),
        ]
        return min(found, default=None)

    @cached_property
    def _flown(self) -> list[Flown]:
        return [Flown.of(each.transfers, self.links) for each in self.flights]

    def _late(self) -> list[int]:
        """The first instants at which transfers wait while links are late for a time."""
        found = []
        for each in self.flights:
            for leader, transfer in enumerate(each.transfers):
                for late in transfer.late:
                    if late.for_good:
                        continue
                    starts = each.starts[:, leader]
                    waiting = starts + transfer.latency(0, for_good=True) > late.begin
                    held = (waiting | (starts >= late.begin)) & (
                        starts < (NEVER if late.end is None else late.end)
                    )
                    if held.any():
                        found.append(max(late.begin, int(starts[held].min())))
        return found

    def _changed(self) -> int | None:
        """The first instant at which something flows on a link that has changed."""
        if not self.links.changes:
            return None
        since = np.full(len(self.links.capacity), NEVER, dtype=np.int64)
        for change in self.links.changes:
            since[change.link] = min(since[change.link], change.time)
        demand = self._demand(since < NEVER)
        late = demand.end > since[demand.link]
        if not late.any():
            return None
        return int(np.maximum(demand.start[late], since[demand.link[late]]).min())

    def _overload(self) -> int | None:
        capacity = self.links.capacity
        found = first_overload(self._demand(self._crowded()), capacity)
        return None if found is None else found.time

    def _crowded(self) -> NDArray[np.bool_]:
        """The links that are used by more than one at a time, and full if they are at the same time."""
        tracks, vectors, rates = [], [], []
        free = 0
        for each, flown in zip(self.flights, self._flown, strict=True):
            tracks.append(each.track[flown.leader])
            vectors.append(flown.vector)
            rates.append(flown.rate)
            free = max(free, int(each.track.max()) + 1)
        for number, other in enumerate(self.links.background):
            tracks.append(np.array([free + number]))
            vectors.append(np.array([other.vector]))
            rates.append(np.array([min(other.rate, self.links.rates[other.vector])]))
        count = len(self.links.capacity)
        if not tracks:
            return np.zeros(count, dtype=np.bool_)
        track, vector, rate = np.concatenate(tracks), np.concatenate(vectors), np.concatenate(rates)
        # Of what a track does with one vector, the fastest counts.
        order = np.lexsort((-rate, vector, track))
        track, vector, rate = track[order], vector[order], rate[order]
        first = np.concatenate([[True], (np.diff(track) != 0) | (np.diff(vector) != 0)])
        track, rows = track[first], self.links.vectors.rows(vector[first])
        times = np.diff(rows.offsets)
        track, demand = np.repeat(track, times), np.repeat(rate[first], times) * rows.loads
        # And of what it does with one link, the most.
        order = np.lexsort((-demand, rows.links, track))
        track, link, demand = track[order], rows.links[order], demand[order]
        first = np.concatenate([[True], (np.diff(track) != 0) | (np.diff(link) != 0)])[: len(link)]
        link, demand = link[first], demand[first]
        users, level = np.bincount(link, minlength=count), np.bincount(link, demand, count)
        return np.asarray((users > 1) & (level > self.links.capacity * (1 - SLACK)))

    def _demand(self, watched: NDArray[np.bool_]) -> Demand:
        """What loads the links to be watched, and when: bytes that take no nanosecond, that instant."""
        tracks, links, starts, ends, rates = [], [], [], [], []
        for each, flown in zip(self.flights, self._flown, strict=True):
            phase, link, load = self._entries(flown.vector, watched)
            if not link.size:
                continue
            begun = each.starts[:, flown.leader[phase]]
            tracks.append(np.broadcast_to(each.track[flown.leader[phase]], begun.shape).ravel())
            links.append(np.broadcast_to(link, begun.shape).ravel())
            starts.append((begun + flown.begin[phase]).ravel())
            ends.append((begun + flown.end[phase]).ravel())
            rates.append(np.broadcast_to(flown.rate[phase] * load, begun.shape).ravel())
        for number, other in enumerate(self.links.background):
            _, link, load = self._entries(np.array([other.vector]), watched)
            tracks.append(np.full(len(link), -1 - number))
            links.append(link)
            starts.append(np.full(len(link), other.begin))
            ends.append(np.full(len(link), NEVER if other.end is None else other.end))
            rates.append(load * min(other.rate, self.links.rates[other.vector]))
        none = np.zeros(0, dtype=np.int64)
        return with_instants(
            np.concatenate([none, *tracks]),
            Demand(
                np.concatenate([none, *links]),
                np.concatenate([none, *starts]),
                np.concatenate([none, *ends]),
                np.concatenate([np.zeros(0), *rates]),
            ),
        )

    def _entries(self, vector: Ints, watched: NDArray[np.bool_]) -> tuple[Ints, Ints, Floats]:
        """(row, link, load) of all entries of vectors on watched links."""
        rows = self.links.vectors.rows(vector)
        kept = watched[rows.links]
        which = np.repeat(np.arange(len(vector)), np.diff(rows.offsets))
        return which[kept], rows.links[kept], rows.loads[kept]
