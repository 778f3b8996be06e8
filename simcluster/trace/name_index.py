"""Names and the numbers that stand for them in columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints


@dataclass
class NameIndex:
    """Names and the numbers that stand for them."""

    names: dict[str, int] = field(default_factory=dict)
    _listed: Sequence[str] = ()

    def number(self, name: str) -> int:
        """The number of a name, new or known."""
        return self.names.setdefault(name, len(self.names))

    def numbers(self, names: Iterable[str]) -> Ints:
        """The numbers of names, likewise."""
        known = self.names
        return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)

    @property
    def listed(self) -> Sequence[str]:
        """The names in the order of their numbers."""
        if len(self._listed) < len(self.names):
            self._listed = tuple(self.names)
        return self._listed


def number_by_appearance(values: Ints) -> tuple[Ints, Ints]:
    """The different values in the order in which they first occur, and by place which of these it is."""
    different, first, which = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return different[order], place[which.reshape(-1)]
