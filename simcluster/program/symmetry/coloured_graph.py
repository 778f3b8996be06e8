"""The coloured structure that symmetry is sought in: ranks, the groups they meet in, and their links.

Everything is integer arrays, so that a hundred thousand ranks with millions of loads are a few passes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints

GRAIN = 2.0**-20
"""What one unit of a load is of the load on the group's slowest link."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupLoads:
    """What each of some groups loads on each link it uses, in rows.

    Row i is ``links[offsets[i]:offsets[i + 1]]`` with ``loads`` beside it, in units of ``GRAIN`` of the load
    on the group's slowest link. ``offsets`` has one entry more than there are groups; rows may be empty.
    """

    offsets: Ints
    links: Ints
    loads: Ints

    def __post_init__(self) -> None:
        rows, entries = self.offsets, len(self.links)
        if len(self.loads) != entries or not rows.size or rows[0] != 0 or rows[-1] != entries:
            raise ValueError("offsets must run from 0 to the number of links, and every link needs a load")
        if np.any(rows[1:] < rows[:-1]):
            raise ValueError("offsets must not decrease")
        if entries and self.loads.min() < 1:
            raise ValueError("loads must be whole and at least 1: a link that is not loaded has no entry")

    @classmethod
    def of(cls, offsets: Ints, links: Ints, parts: NDArray[np.float64]) -> GroupLoads:
        """Loads written as parts of the slowest link's; ValueError if one is no multiple of ``GRAIN``."""
        units = parts / GRAIN
        whole = units.astype(np.int64)
        if not np.array_equal(whole, units):
            raise ValueError("a load is not a multiple of 2^-20")
        return cls(offsets, links, whole)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, index: int) -> dict[int, int]:
        """One row as link -> load."""
        part = slice(int(self.offsets[index]), int(self.offsets[index + 1]))
        return dict(zip(self.links[part].tolist(), self.loads[part].tolist(), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class RankGroups:
    """Groups of ranks that meet, all of one size: members [groups, size], and colours [groups] to begin with.

    A group is an unordered set, or with ``ordered`` a tuple in which the place says what a rank does, as
    the sender of a pair. A rank is in one group at most (with ``ordered``: once at most at each place).
    ``loads`` are those of each pattern, with a row per group.
    """

    members: Ints
    colours: Ints
    loads: Sequence[GroupLoads] = ()
    ordered: bool = False

    def __post_init__(self) -> None:
        if len(self.colours) != len(self.members) or any(len(load) != len(self) for load in self.loads):
            raise ValueError("every group needs a colour and a row in each pattern of loads")
        for place in self.members.T if self.ordered else (self.members,):
            if place.size and np.bincount(place.ravel()).max() > 1:
                raise ValueError("a rank is in more than one of the groups")

    def __len__(self) -> int:
        return len(self.members)


@dataclass(frozen=True, slots=True, eq=False)
class ColouredGraph:
    """Colours to begin with of ranks [ranks] and links [links], and who meets over which links.

    ``implied`` are meetings without loads that change no partition, only how soon it is found: because of the
    others, equal ranks are at equal places of equal ones of these.
    """

    ranks: Ints
    meetings: Sequence[RankGroups]
    links: Ints
    implied: Sequence[RankGroups] = ()

    def __post_init__(self) -> None:
        for meetings in (*self.meetings, *self.implied):
            if meetings.members.size and not 0 <= meetings.members.min() <= meetings.members.max() < len(
                self.ranks
            ):
                raise ValueError("a member is not one of the ranks")
            for load in meetings.loads:
                if load.links.size and not 0 <= load.links.min() <= load.links.max() < len(self.links):
                    raise ValueError("a loaded link is not one of the links")

    @property
    def used(self) -> Ints:
        """The links that any group loads, in order."""
        used = np.zeros(len(self.links), dtype=np.bool_)
        for meetings in self.meetings:
            for load in meetings.loads:
                used[load.links] = True
        return np.flatnonzero(used)
