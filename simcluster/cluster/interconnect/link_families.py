"""Names and numbers of many equal things: no object per link, one family for all links of a kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.interconnect.glob import Glob
from simcluster.deferred_dataclass import dataclass

Numbers: TypeAlias = NDArray[np.int64]

Ends: TypeAlias = Callable[[Numbers], tuple[Numbers, Numbers]]
"""Members of a family, counted from 0 -> the nodes they lead from and to."""


@dataclass(frozen=True, slots=True, eq=False)
class NameBlock:
    """Consecutive numbers with names: ``pattern`` has one ``{}`` for each axis of ``shape``.

    ``labels`` name the places of an axis that are not called 0, 1, 2; None for the others.
    """

    pattern: str
    first: int
    shape: tuple[int, ...]
    labels: tuple[tuple[str, ...] | None, ...] = ()

    @property
    def size(self) -> int:
        """How many numbers."""
        return prod(self.shape)

    def name(self, number: int) -> str:
        """The name of one of its numbers."""
        places = np.unravel_index(number - self.first, self.shape)
        return self.pattern.format(*(self.label(axis, int(place)) for axis, place in enumerate(places)))

    def label(self, axis: int, place: int) -> str:
        """What a place of an axis is called."""
        labels = self.labels[axis] if axis < len(self.labels) else None
        return labels[place] if labels else str(place)

    def matching(self, glob: Glob) -> Numbers:
        """The numbers whose names fit, rising."""
        texts = self.pattern.split("{}")
        axes = [[self.label(axis, place) for place in range(size)] for axis, size in enumerate(self.shape)]
        return self.first + np.flatnonzero(glob.chosen(texts, axes))


@dataclass(frozen=True, slots=True, eq=False)
class LinkFamily(NameBlock):
    """Directed links of one kind: each carries ``rate`` usable bytes/s after ``latency`` seconds.

    ``source`` says which figure they come from; ``ends`` which nodes they join.
    """

    rate: float = 0.0
    latency: float = 0.0
    source: str = ""
    ends: Ends | None = None


@dataclass(frozen=True, slots=True, eq=False)
class NameTable:
    """Blocks that follow one another from 0."""

    blocks: tuple[NameBlock, ...]
    _firsts: Numbers

    @classmethod
    def of(cls, blocks: Sequence[NameBlock]) -> NameTable:
        """The numbering of blocks in their order; empty ones are left out."""
        kept = tuple(block for block in blocks if block.size)
        return cls(kept, np.array([block.first for block in kept], dtype=np.int64))

    @property
    def size(self) -> int:
        """How many numbers."""
        return self.blocks[-1].first + self.blocks[-1].size if self.blocks else 0

    def block_of(self, numbers: Numbers) -> Numbers:
        """The index of each number's block."""
        return np.asarray(np.searchsorted(self._firsts, numbers, side="right") - 1, dtype=np.int64)

    def name(self, number: int) -> str:
        """The name of a number; IndexError if it has none."""
        if not 0 <= number < self.size:
            raise IndexError(f"{number} of {self.size}")
        return self.blocks[int(self.block_of(np.asarray(number)))].name(number)

    def matching(self, pattern: str) -> Numbers:
        """The numbers whose names fit a pattern as ``simcluster.document.pattern`` has it, rising."""
        glob = Glob(pattern)
        numbers = [block.matching(glob) for block in self.blocks]
        return np.concatenate(numbers) if numbers else np.zeros(0, dtype=np.int64)
