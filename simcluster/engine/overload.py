"""Where links would carry more than they can, by what demands it and when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SLACK = 2.0**-30
"""Part of the capacity within which a link that several share counts as full.

Far more than float sums of rates can lose: below it, sharing gives all of them the very rate they have alone.
"""


EXACT = 2.0**52
"""Sums of whole numbers up to this are exact."""


@dataclass(frozen=True)
class Demand:
    """What loads links, one row for each time that something loads one of them.

    From ``start`` to before ``end`` (ns) it takes ``rate`` bytes/s of the link number ``link``. Rows may come
    in any order; one whose end is not after its start takes nothing.
    """

    link: Ints
    start: Ints
    end: Ints
    rate: Floats

    def __post_init__(self) -> None:
        lengths = {len(column) for column in (self.link, self.start, self.end, self.rate)}
        if len(lengths) > 1:
            raise ValueError(f"columns of different lengths: {sorted(lengths)}")


@dataclass(frozen=True)
class Overload:
    """The first instant (ns) at which several fill a link, or one does more, and that link."""

    time: int
    link: int
    demand: float


def with_instants(track: Ints, demand: Demand) -> Demand:
    """The demand in which what is over in less than a nanosecond takes its rate for one.

    So few bytes are over at the instant at which they start if they have a link for themselves; whoever is on
    it then makes them last. ``track`` [rows] is equal where one row is over before the next one starts: of
    what a track does to a link at one instant, and then, the most counts.
    """
    brief = demand.end <= demand.start
    if not brief.any():
        return demand
    # What the same track goes on with at that instant is beside them.
    near = np.flatnonzero(np.isin(demand.start, demand.start[brief]))
    near = near[np.lexsort((demand.start[near], demand.link[near], track[near]))]
    keys = np.stack([track[near], demand.link[near], demand.start[near]])
    first = np.flatnonzero(np.append(True, (np.diff(keys, axis=1) != 0).any(axis=0)))
    instant = np.logical_or.reduceat(brief[near], first)
    most = np.maximum.reduceat(demand.rate[near], first)
    at = near[first][instant]
    start = demand.start.copy()
    start[near[np.repeat(instant, np.diff(np.append(first, len(near))))]] += 1
    return Demand(
        np.append(demand.link, demand.link[at]),
        np.append(start, demand.start[at]),
        np.append(demand.end, demand.start[at] + 1),
        np.append(demand.rate, most[instant]),
    )


def first_overload(demand: Demand, capacity: Floats) -> Overload | None:
    """The first overload of all links, of the lowest link where several begin at once; None if there is none.

    ``capacity`` [links] is in bytes/s. What ends at an instant makes room for what starts there. One that
    takes a whole link for itself has what it wants; where several are on it, it must not be full, unless all
    of them want whole numbers of bytes/s, so that rounding does not matter.
    """
    takes = np.flatnonzero((demand.end > demand.start) & (demand.rate > 0))
    if not takes.size:
        return None
    link = np.concatenate([demand.link[takes]] * 2)
    time = np.concatenate([demand.start[takes], demand.end[takes]])
    change = np.concatenate([demand.rate[takes], -demand.rate[takes]])
    # Ends before starts, and those of equal rates together: the sum of each link begins and ends at zero.
    order = np.lexsort((change, time, link))
    link, time, change = link[order], time[order], change[order]
    first = np.flatnonzero(np.concatenate([[True], link[1:] != link[:-1]]))
    level = _running(change, first)
    # All sums begin and end at zero, so that of several links in a row is that of each.
    users = np.cumsum(np.where(change > 0, 1, -1))
    # Only the level after all changes of an instant is one that lasts.
    lasts = np.concatenate([(link[1:] != link[:-1]) | (time[1:] != time[:-1]), [True]])
    # Whole numbers of bytes/s, and sums of them, are exact: then several may fill a link to the brim.
    whole = np.zeros(len(capacity), dtype=np.bool_)
    whole[link[first]] = np.logical_and.reduceat(np.rint(change) == change, first)
    whole &= (np.rint(capacity) == capacity) & (capacity < EXACT)
    slack = np.where(users > 1, np.where(whole[link], 0.0, -SLACK), SLACK)
    room = capacity[link] * (1 + slack)
    over = np.flatnonzero(lasts & (level > room))
    if not over.size:
        return None
    where = over[np.lexsort((link[over], time[over]))[0]]
    return Overload(int(time[where]), int(link[where]), float(level[where]))


def _running(change: Floats, first: Ints) -> Floats:
    """Running sums that begin again at each of ``first``, each link's as if it were alone."""
    lengths = np.diff(np.append(first, len(change)))
    found = np.empty_like(change)
    # Links with equally many changes are the rows of one block: their sums do not touch each other.
    for length in np.unique(lengths).tolist():
        rows = first[lengths == length][:, None] + np.arange(length)[None, :]
        found[rows] = np.cumsum(change[rows], axis=1)
    return found
