"""The parts of an all-to-all with parts of different sizes: of one group, and of all groups of some axes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import field

import numpy as np

from simcluster.collectives.step import ChunkLayout
from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Floats, Ints

MOST = 2**53
"""Sums of whole numbers below it are exact in float64, in any order."""


@dataclass(frozen=True, slots=True, eq=False)
class UnequalParts:
    """What each rank of a group has for each, in the group's order.

    ``counts`` [n, n] are whole numbers, a row for each sender. Of a collective of S bytes rank i sends
    ``S x share x counts[i, j]`` to rank j. Equal tables are equal keys. Raises ValueError for what is no such
    table.
    """

    counts: Ints
    share: float
    _key: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        shape = self.counts.shape
        if len(shape) != 2 or shape[0] != shape[1] or not np.issubdtype(self.counts.dtype, np.integer):
            raise ValueError(f"parts are whole numbers, a row and a column for each rank, not {shape}")
        if self.counts.min(initial=0) < 0:
            raise ValueError("a part is negative")
        if float(self.counts.sum(dtype=np.float64)) >= MOST:
            raise ValueError("the parts together are not a number below 2^53")
        object.__setattr__(self, "_key", np.asarray(self.counts, dtype=np.int64).tobytes())

    @classmethod
    def of(cls, counts: Ints) -> UnequalParts:
        """Parts in these proportions; S is then what a rank sends on average, its own part included."""
        total = int(counts.sum())
        if total <= 0:
            raise ValueError("no rank has anything for any")
        return cls(counts, len(counts) / total)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnequalParts) and (self.share, self._key) == (other.share, other._key)

    def __hash__(self) -> int:
        return hash((self.share, self._key))

    @property
    def num_ranks(self) -> int:
        """Ranks of the group."""
        return len(self.counts)

    @property
    def is_even(self) -> bool:
        """Whether all parts are S / n, those of the all-to-all with equal parts."""
        first = int(self.counts.flat[0])
        return bool((self.counts == first).all()) and self.share * first * self.num_ranks == 1.0

    @property
    def most_kept(self) -> float:
        """The largest part that stays on its rank, per byte of S."""
        return float(self.counts.diagonal().max()) * self.share

    def of_chunks(self, cut: ChunkLayout, order: Ints) -> Floats:
        """Counts of every chunk of an all-to-all, its ranks numbered so that i is member ``order[i]``."""
        blocks = self.counts[np.ix_(order, order)].ravel()
        return np.asarray(blocks[cut.block(np.arange(cut.num_chunks))] / cut.parts, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class UnequalPartsByGroup:
    """The parts of every group of some axes, in the order of the mesh's groups: ``tables[of_group[i]]``.

    S is then what a rank of all groups sends on average.
    """

    tables: tuple[UnequalParts, ...]
    of_group: tuple[int, ...]

    @classmethod
    def of(cls, counts: Ints | Sequence[Ints]) -> UnequalPartsByGroup:
        """Parts in proportions that hold across groups [groups, n, n].

        Groups of equal tables share one. Raises ValueError for what is no such table.
        """
        every = np.asarray(counts)
        if every.ndim != 3 or not every.size:
            raise ValueError(f"parts of all groups are [groups, ranks, ranks], not {every.shape}")
        total = int(every.sum())
        if total <= 0:
            raise ValueError("no rank has anything for any")
        share = every.shape[0] * every.shape[1] / total
        number: dict[UnequalParts, int] = {}
        of_group = tuple(number.setdefault(UnequalParts(table, share), len(number)) for table in every)
        return cls(tuple(number), of_group)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnequalPartsByGroup) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[tuple[UnequalParts, ...], tuple[int, ...]]:
        return self.tables, self.of_group

    def digest(self) -> str:
        """A short text that is the same for equal tables alone."""
        total = hashlib.sha256(str(self.of_group).encode())
        for table in self.tables:
            total.update(str(table.share).encode() + table.counts.astype("<i8").tobytes())
        return total.hexdigest()[:16]

    def of_number(self, group: int) -> UnequalParts:
        """Those of a group."""
        return self.tables[self.of_group[group]]
