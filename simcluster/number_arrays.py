"""Arrays of numbers by what they hold, and lists of different lengths in one array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def offsets(counts: Sequence[int] | Ints | Flags) -> Ints:
    """Where each of several lists of so many rows begins, and where the last ends."""
    sums = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums


def rows_of_lists(first: Ints, which: Ints) -> tuple[Ints, Ints]:
    """The rows of the lists ``which``, one list after another, if list ``n`` has those from ``first[n]`` to
    ``first[n + 1]``: by row the place of its list in ``which``, and its number.
    """
    sizes = (first[1:] - first[:-1])[which]
    owner = np.repeat(np.arange(len(which)), sizes)
    rows = np.repeat(first[which] - (np.cumsum(sizes) - sizes), sizes)
    rows += np.arange(len(rows))
    return owner, rows
