"""Kernels that run one after another without anybody waiting in between."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.linking.code_entries import CodeEntries
from simcluster.number_arrays import Ints, offsets
from simcluster.program import COMPUTE

PARTS = 3
"""Parts of a kernel, in this order: bound by units, bound by memory, and launches and dispatch."""


@dataclass(frozen=True, slots=True)
class Segments:
    """The different segments that the entries of a compute stream are.

    ``segment_of`` [entries] is the segment of an entry; ``first`` [segments + 1] is the first kernel of each
    segment, of those that all ``kernels`` are: (code, its instructions).
    """

    segment_of: Ints
    first: Ints
    kernels: tuple[tuple[int, Ints], ...]

    @classmethod
    def of(cls, codes: Mapping[int, CodeEntries], segment_of: Ints) -> Segments:
        """Those of codes, one code after another."""
        sizes = [np.zeros(0, dtype=np.int64)]
        kernels: list[tuple[int, Ints]] = []
        for code, entries in codes.items():
            if COMPUTE in entries.streams:
                own = np.flatnonzero(entries.stream_of == entries.streams.index(COMPUTE))
                kernels.append((code, own))
                sizes.append(np.bincount(entries.entry[own]))
        return cls(segment_of, offsets(np.concatenate(sizes)), tuple(kernels))

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def longest(self) -> int:
        """The most kernels of one segment."""
        return int(np.diff(self.first).max(initial=0))

    def durations(self, parts: Ints) -> Ints:
        """Nanoseconds [..., segments] of every segment that nothing slows, of the ``parts`` of its kernels
        [..., kernels, ``PARTS``].

        OverflowError if these kernels, which all run one after another, take more than 64 bits hold.
        """
        times = parts.sum(axis=-1)
        if times.sum(axis=-1, dtype=np.float64).max(initial=0) >= 2.0**63:
            raise OverflowError
        none = np.zeros((*times.shape[:-1], 1), dtype=np.int64)
        return np.diff(np.concatenate([none, np.cumsum(times, axis=-1)], axis=-1).take(self.first, axis=-1))
