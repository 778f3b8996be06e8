"""The kernels of a compute stream as numbered segments: what each entry runs, part by part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.linking.code_entries import NOTHING, CodeEntries
from simcluster.number_arrays import Ints, offsets
from simcluster.program import COMPUTE

PARTS = 3
"""Parts of a kernel, in this order: bound by units, bound by memory, and launches and dispatch."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Kernels that run one after another without anybody waiting in between.

    ``which`` [entries] is the segment of an entry, ``NOTHING`` where it only waits; ``first`` [segments + 1]
    is the first kernel of each segment, of those that all ``kernels`` are: (code, its instructions).
    """

    which: Ints
    first: Ints
    kernels: tuple[tuple[int, Ints], ...]

    @classmethod
    def of(cls, runs: Sequence[tuple[int, CodeEntries, Ints]], length: int) -> Segments:
        """Those of a stream of this ``length``; ``runs`` are (code, its entries, where each of its executions
        begins on the stream).
        """
        which = np.full(length, NOTHING, dtype=np.int64)
        counts = [np.zeros(0, dtype=np.int64)]
        kernels: list[tuple[int, Ints]] = []
        known = 0
        for code, entries, begins in runs:
            if COMPUTE not in entries.streams:
                continue
            local = entries.streams.index(COMPUTE)
            own = np.flatnonzero(entries.stream_of == local)
            kernels.append((code, own))
            used, sizes = np.unique(entries.entry[own], return_counts=True)
            numbers = np.full(len(entries.tracks[local]), NOTHING, dtype=np.int64)
            numbers[used] = known + np.arange(len(used))
            known += len(used)
            counts.append(sizes)
            which[begins[:, None] + np.arange(len(numbers))] = numbers
        return cls(which, offsets(np.concatenate(counts)), tuple(kernels))

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def longest(self) -> int:
        """The most kernels of one segment."""
        return int(np.diff(self.first).max(initial=0))

    def durations(self, parts: Ints) -> Ints:
        """Nanoseconds of every segment that nothing slows, of the ``parts`` of its kernels.

        OverflowError if these kernels, which all run one after another, take more than 64 bits hold.
        """
        times = parts.sum(axis=1)
        if times.sum(dtype=np.float64) >= 2.0**63:
            raise OverflowError
        return np.asarray(np.diff(offsets(times)[self.first]), dtype=np.int64)
