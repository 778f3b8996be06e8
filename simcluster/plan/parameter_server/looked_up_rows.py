"""Which rows of a table a batch looks up: drawn from a law, so that equal ids count once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints

MULTIPLIER = 2_654_435_761
"""Spreads neighbours over a table: Knuth's multiplier of hashing (2^32 over the golden ratio)."""


@dataclass(frozen=True, slots=True)
class LookupLaw:
    """How often rows are looked up: the k-th most often in proportion to ``k ** -exponent``; 0: all alike."""

    exponent: float
    seed: int

    def draw(self, rows: int, count: int) -> Ints:
        """The different rows that so many lookups name, by popularity, from 0."""
        generator = np.random.Generator(np.random.Philox(key=self.seed))
        if self.exponent == 0:
            return np.unique(generator.integers(0, rows, count))
        weights = np.cumsum(np.arange(1, rows + 1, dtype=np.float64) ** -self.exponent)
        return np.unique(np.searchsorted(weights, generator.random(count) * weights[-1]))


def rows_per_shard(popularity: Ints, rows: int, bounds: Sequence[tuple[int, int]]) -> list[int]:
    """How many of some rows lie in each part (first, rows) of a table over which popular ones are spread."""
    step = MULTIPLIER
    while np.gcd(step, rows) != 1:
        step += 1
    place = (popularity * (step % rows)) % rows
    return [int(np.count_nonzero((place >= first) & (place < first + count))) for first, count in bounds]
