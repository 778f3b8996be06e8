"""Rows of columns that hold the same, told by tables where numbers are small: sorting takes far longer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.number_arrays import Ints

_SPARSE = 8
"""Numbers so many times as large as there are rows are sorted instead."""


def distinct_rows(*columns: NDArray[np.integer[Any]]) -> tuple[Ints, Ints]:
    """A row of each combination of values, and for each row the number of its combination.

    Values are whole numbers from 0 on.
    """
    numbers = np.zeros(len(columns[0]), dtype=np.int64)
    rows = numbers
    for column in columns:
        rows, numbers = _distinct(numbers * (int(column.max(initial=0)) + 1) + column)
    return rows, numbers


def _distinct(keys: Ints) -> tuple[Ints, Ints]:
    above = int(keys.max(initial=-1)) + 1
    if above > _SPARSE * len(keys):
        _, rows, numbers = np.unique(keys, return_index=True, return_inverse=True)
        return rows, numbers.reshape(-1)
    row_of = np.full(above, -1, dtype=np.int64)
    row_of[keys] = np.arange(len(keys))
    used = np.flatnonzero(row_of >= 0)
    rows = row_of[used]
    row_of[used] = np.arange(len(used))
    return rows, row_of[keys]
