"""Where a group stands, as far as an algorithm looks: units of neighbours, rails between them, links inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simcluster.collectives.step import Ints


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A group in units: its hosts, or pods where it lies on several of them.

    Ranks are numbered unit by unit, in each unit as they stand in the group: ``order[i]`` is the place in the
    group of rank i here, and rank 0 is the group's first. ``units``: ranks of each unit. ``rail_of`` [n]:
    the rail beside each rank, counted in its unit from 0; ``rails``: how many every unit has.

    ``widths`` [p, p]: links of their own between the ranks of the first unit, absent where all are joined
    through a switch. ``switched``: whether each unit has a switch that reduces: id ``num_ranks + unit``.
    ``aggregated``: whether the network's root reduces: id ``num_ranks + num_units``.
    """

    order: Ints
    units: tuple[int, ...]
    rail_of: Ints
    rails: int
    widths: Ints | None = None
    switched: bool = False
    aggregated: bool = False

    @classmethod
    def of_units(
        cls,
        units: Sequence[int],
        rails: int | None = None,
        widths: Ints | None = None,
        *,
        switched: bool = False,
        aggregated: bool = False,
    ) -> Site:
        """A group of neighbours with so many ranks in each unit, its rails spread over them."""
        rails = min(units) if rails is None else rails
        if not 1 <= rails <= min(units):
            raise ValueError(f"{rails} rails for units of {tuple(units)} ranks")
        beside = [np.arange(count) * rails // count for count in units]
        rail_of = np.concatenate(beside).astype(np.int64)
        return cls(np.arange(sum(units)), tuple(units), rail_of, rails, widths, switched, aggregated)

    @property
    def num_ranks(self) -> int:
        """Ranks of the group."""
        return int(self.order.size)

    @property
    def num_units(self) -> int:
        """Units of the group."""
        return len(self.units)

    @property
    def most(self) -> int:
        """Ranks of the largest unit."""
        return max(self.units)

    @property
    def fewest(self) -> int:
        """Ranks of the smallest unit."""
        return min(self.units)

    @property
    def is_even(self) -> bool:
        """Whether all units have as many ranks."""
        return self.most == self.fewest

    @property
    def starts(self) -> Ints:
        """The first rank of every unit."""
        return np.concatenate([[0], np.cumsum(self.units)[:-1]]).astype(np.int64)

    @property
    def unit_of(self) -> Ints:
        """The unit of every rank."""
        return np.repeat(np.arange(self.num_units), self.units)

    @property
    def grid(self) -> Ints:
        """The ranks [units, ranks of a unit] of an even group."""
        return np.arange(self.num_ranks).reshape(self.num_units, self.most)

    def heads(self, rail: int) -> Ints:
        """In each unit, the place among its ranks of the first one beside a rail [units]."""
        found = []
        for start, count in zip(self.starts.tolist(), self.units, strict=True):
            beside = self.rail_of[start : start + count]
            cards = np.unique(beside)
            found.append(int(np.flatnonzero(beside == cards[rail * cards.size // self.rails])[0]))
        return np.array(found, dtype=np.int64)

    def switch(self, unit: Ints | int) -> Ints:
        """The id of a unit's switch."""
        return np.asarray(unit, dtype=np.int64) + self.num_ranks

    @property
    def root(self) -> int:
        """The id of the network's root switch."""
        return self.num_ranks + self.num_units
