"""Kernels that took longer than their price, because communication ran beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.trace.table import Table

Ints = NDArray[np.int64]


def stretch_kernels(
    stretched: Table, entries: Ints, of_kernel: NDArray[Any], starts: Ints, ends: Ints
) -> None:
    """Corrects the starts and ends [executions, kernels] of a code's kernels that were slowed.

    ``stretched`` has entry, start and end of every kernel of the entries that were slowed, by entry, in
    order. ``entries`` [executions, kernels] are those of the kernels; ``of_kernel`` [kernels] is the same
    within the code: consecutive kernels with one number are one entry.
    """
    known = stretched["entry"]
    if not len(known) or not len(of_kernel):
        return
    place = np.arange(len(of_kernel)) - np.searchsorted(of_kernel, of_kernel)
    first = np.searchsorted(known, entries)
    slowed = known[np.minimum(first, len(known) - 1)] == entries
    rows = (first + place)[slowed]
    starts[slowed], ends[slowed] = stretched["start"][rows], stretched["end"][rows]
