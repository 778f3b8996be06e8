"""Which rows of a table a batch looks up: drawn from a law, so that equal ids count once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints

MULTIPLIER = 2_654_435_761
"""Spreads neighbours over a table: Knuth's multiplier of hashing (2^32 over the golden ratio)."""


BLOCK = 2**22
"""Rows whose shares are in memory at a time, so that tables of billions of rows can be drawn from."""


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
        total = 0.0
        for _, sums in self._sums(rows):
            total = float(sums[-1])
        points = np.sort(generator.random(count) * total)
        rows_by_block = []
        for first, sums in self._sums(rows):
            until = np.searchsorted(points, sums[-1], side="right")
            rows_by_block.append(first + np.searchsorted(sums, points[:until]))
            points = points[until:]
        return np.unique(np.concatenate(rows_by_block))

    def _sums(self, rows: int) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """The sums of the shares of all rows up to each, block by block: (first row, sums of the block)."""
        total = 0.0
        for first in range(0, rows, BLOCK):
            shares = np.arange(first + 1, min(first + BLOCK, rows) + 1, dtype=np.float64) ** -self.exponent
            shares[0] += total
            sums = np.cumsum(shares)
            total = float(sums[-1])
            yield first, sums


def rows_per_shard(popularity: Ints, rows: int, bounds: Sequence[tuple[int, int]]) -> list[int]:
    """How many of some rows lie in each part (first, rows) of a table over which popular ones are spread."""
    step = MULTIPLIER
    while np.gcd(step, rows) != 1:
        step += 1
    place = _product(popularity, step % rows, rows)
    return [int(np.count_nonzero((place >= first) & (place < first + count))) for first, count in bounds]


def _product(numbers: Ints, factor: int, modulus: int) -> Ints:
    """``numbers * factor % modulus`` [n] of numbers below a modulus of at most 2^47.

    By halves of 16 bits of a factor below 2^32, so that no product leaves 64 bits.
    """
    high, low = divmod(factor, 2**16)
    return (numbers * high % modulus * 2**16 % modulus + numbers * low % modulus) % modulus
