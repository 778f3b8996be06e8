"""Where links would carry more than they can: the check behind a sweep (DESIGN 4.9).

A sweep times everything as if it were alone on its links. That is the contended result too if no link ever
has more demand than capacity; otherwise what ends before the first such instant stands. Nothing calls this
yet: it waits for the loads of collectives and transfers on links.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SLACK = 2.0**-40
"""Part of the capacity by which demand may be more: what float sums of rates that fill a link may lose."""


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
    """The first instant (ns) at which a link has more demand than capacity, and that link."""

    time: int
    link: int
    demand: float


def first_overload(demand: Demand, capacity: Floats) -> Overload | None:
    """The first overload of all links, of the lowest link where several begin at once; None if there is none.

    ``capacity`` [links] is in bytes/s. What ends at an instant makes room for what starts there.
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
    # Only the level after all changes of an instant is one that lasts.
    lasts = np.concatenate([(link[1:] != link[:-1]) | (time[1:] != time[:-1]), [True]])
    over = np.flatnonzero(lasts & (level > capacity[link] * (1 + SLACK)))
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
