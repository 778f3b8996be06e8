"""Numbered lists of rows of numbers, of different lengths, as one array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints, offsets, rows_of_lists


@dataclass(frozen=True, slots=True)
class RowLists:
    """Lists of rows: ``columns`` [columns, rows] has those of list ``n`` at ``first[n]:first[n + 1]``."""

    first: Ints
    columns: Ints

    @classmethod
    def of(cls, lists: Sequence[Sequence[Sequence[int]]], num_columns: int) -> RowLists:
        """These lists, whose rows have so many numbers."""
        table = np.array([row for rows in lists for row in rows], dtype=np.int64)
        columns = np.ascontiguousarray(table.reshape(-1, num_columns).T)
        return cls(offsets([len(rows) for rows in lists]), columns)

    @classmethod
    def grouped(cls, owners: Ints, count: int, columns: Ints) -> RowLists:
        """``count`` lists of rows that are in the order of their lists, ``owners`` [rows]."""
        return cls(offsets(np.bincount(owners, minlength=count)), columns)

    def of_each(self, which: Ints) -> tuple[Ints, Ints]:
        """The rows of some lists, one list after another: by row the place of its list in ``which``, and the
        columns [columns, rows].
        """
        owner, rows = rows_of_lists(self.first, which)
        return owner, self.columns[:, rows]
