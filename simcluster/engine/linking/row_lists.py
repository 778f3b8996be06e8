"""Numbered lists of rows of numbers, of different lengths, as one array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints


@dataclass(frozen=True, slots=True)
class RowLists:
    """Lists of rows: ``columns`` [columns, rows] has those of list ``n`` at ``first[n]:first[n + 1]``."""

    first: Ints
    columns: Ints

    @classmethod
    def of(cls, lists: Sequence[Sequence[Sequence[int]]], num_columns: int) -> RowLists:
        """These lists, whose rows have so many numbers."""
        first = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        table = np.array([row for rows in lists for row in rows], dtype=np.int64)
        return cls(first, np.ascontiguousarray(table.reshape(-1, num_columns).T))

    @classmethod
    def grouped(cls, owners: Ints, count: int, columns: Ints) -> RowLists:
        """``count`` lists of rows that are in the order of their lists, ``owners`` [rows]."""
        first = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=count))])
        return cls(first, columns)

    def of_each(self, which: Ints) -> tuple[Ints, Ints]:
        """The rows of some lists, one list after another: by row the place of its list in ``which``, and the
        columns [columns, rows].
        """
        sizes = (self.first[1:] - self.first[:-1])[which]
        owner = np.repeat(np.arange(len(which)), sizes)
        shift = self.first[which] - (np.cumsum(sizes) - sizes)
        return owner, self.columns[:, np.arange(len(owner)) + shift[owner]]
