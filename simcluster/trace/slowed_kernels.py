"""Kernels that took longer than their price, because communication ran beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.number_arrays import Ints
from simcluster.trace.table import Table


def first_stretched(stretched: Table, num_entries: int) -> Ints:
    """By entry the first of its rows in ``stretched``, which are in the order of entries; -1: it has none."""
    first = np.full(num_entries, -1, dtype=np.int64)
    entries = stretched["entry"][::-1]
    first[entries] = np.arange(len(entries))[::-1]
    return first


def stretch_kernels(stretched: Table, rows: Ints, of_kernel: NDArray[Any], starts: Ints, ends: Ints) -> None:
    """Corrects the starts and ends [executions, kernels] of a code's kernels that were slowed.

    ``stretched`` has start and end of every kernel of the entries that were slowed, in order; ``rows``
    [executions, kernels] are the first of the kernels' entries there, -1 where nothing slowed them.
    ``of_kernel`` [kernels] are the entries within the code: consecutive kernels with one number are one.
    """
    slowed = rows >= 0
    place = np.arange(len(of_kernel)) - np.searchsorted(of_kernel, of_kernel)
    own = (rows + place)[slowed]
    starts[slowed], ends[slowed] = stretched["start"][own], stretched["end"][own]
