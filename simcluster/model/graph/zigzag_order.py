"""The order in which the tokens of a sequence lie where slices of it are to have equal causal attention.

The last of equal slices of causal queries has most keys to see. So a sequence is cut into twice as many
chunks as there are slices, and slice ``r`` holds chunk ``r`` and, behind it, chunk ``2 n - 1 - r``: together
they see as many keys as any other pair (Llama 3's context parallelism, arXiv 2407.21783 section 3.3.2).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Zigzag:
    """The zigzag order of sequences of ``length`` tokens that ``slices`` ranks share equally."""

    slices: int
    length: int

    def __post_init__(self) -> None:
        assert self.length % (2 * self.slices) == 0, "chunks are equal"

    def positions(self, start: int, count: int) -> NDArray[np.int64]:
        """Where the tokens stand in their sequence that lie at ``start`` and behind it; the last one's for
        padding behind it.
        """
        return np.asarray(_positions(self)[np.minimum(start + np.arange(count), self.length - 1)])


@cache
def _positions(order: Zigzag) -> NDArray[np.int64]:
    chunk = order.length // (2 * order.slices)
    pairs = ((index, 2 * order.slices - 1 - index) for index in range(order.slices))
    starts = [chunk * number for pair in pairs for number in pair]
    return np.asarray(np.add.outer(starts, np.arange(chunk)).reshape(-1))


def token_positions(order: Zigzag | None, start: int, count: int) -> NDArray[np.int64]:
    """Positions of ``count`` local tokens from ``start`` on: in an order, or as they follow one another."""
    return start + np.arange(count) if order is None else order.positions(start, count)
