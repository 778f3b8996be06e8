"""A list of ranks as people write it: ``0,17,4096-4103``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simcluster.plan import MOST_RANKS


def rank_list(text: str, num_devices: int) -> NDArray[np.int64]:
    """The ranks in ascending order; ValueError says what is wrong with the text."""
    ranks: list[int] = []
    for word in text.split(","):
        first, _, last = (part.strip() for part in word.partition("-"))
        if not first.isdecimal() or not (last or first).isdecimal() or (not last and "-" in word):
            raise ValueError(f"'{word.strip()}' is not a rank; write for example 0,8,16-23")
        low, high = int(first), int(last or first)
        if high < low:
            raise ValueError(f"'{word.strip()}' counts down; write {high}-{low}")
        if high >= num_devices:
            raise ValueError(f"there is no rank {high}; the cluster has {num_devices:,}, from 0 on")
        if high - low >= MOST_RANKS:
            raise ValueError(f"'{word.strip()}' are {high - low + 1:,} ranks; at most {MOST_RANKS:,}")
        ranks += range(low, high + 1)
    ordered, counts = np.unique(np.array(ranks, dtype=np.int64), return_counts=True)
    if counts.max() > 1:
        raise ValueError(f"rank {ordered[counts > 1][0]} is named twice")
    return ordered
