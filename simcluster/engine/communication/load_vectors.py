"""Load vectors: how much of each link one byte of a flow takes, as one array of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Floats, Ints, offsets

GRAIN = 2.0**-20
"""Loads are multiples of this, so that their sums are exact in float64 in any order."""

MOST = 2.0**33
"""Below this, sums of multiples of ``GRAIN`` fit the 53 bits of a float64."""


@dataclass(frozen=True)
class Vectors:
    """Load vectors, row ``v`` the entries ``offsets[v]:offsets[v + 1]`` of ``links`` and ``loads``.

    A load is what one byte of a flow puts on one link: 1 on the flow's slowest link; where a flow stands
    for many equal ones, the sum of all of them on one link. Raises ValueError for loads that are not positive
    multiples of ``GRAIN`` below ``MOST`` and for a row that names a link twice.
    """

    offsets: Ints
    links: Ints
    loads: Floats

    def __post_init__(self) -> None:
        scaled = self.loads / GRAIN
        if not (np.isfinite(self.loads) & (self.loads > 0) & (self.loads < MOST)).all():
            raise ValueError("a load must be positive and below 2^33")
        if (scaled != np.rint(scaled)).any():
            raise ValueError("a load must be a multiple of 2^-20")
        if self.links.size and self.links.min() < 0:
            raise ValueError("a link number must not be negative")
        rows = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        order = np.lexsort((self.links, rows))
        same = (np.diff(rows[order]) == 0) & (np.diff(self.links[order]) == 0)
        if same.any():
            raise ValueError(f"vector {rows[order][:-1][same][0]} names a link twice")

    @classmethod
    def of(cls, rows: Sequence[Sequence[tuple[int, float]]]) -> Vectors:
        """Vectors from (link, load) pairs per row."""
        pairs = [pair for row in rows for pair in row]
        return cls(
            offsets([len(row) for row in rows]),
            np.array([link for link, _ in pairs], dtype=np.int64),
            np.array([load for _, load in pairs], dtype=np.float64),
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1
