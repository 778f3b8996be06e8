"""The kernels of a class's compute stream as numbered segments: what each entry runs, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.linking.class_program import ClassProgram
from simcluster.engine.linking.timed_code import NOTHING, TimedCode
from simcluster.program import COMPUTE

Ints = NDArray[np.int64]

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
    def of(cls, linked: ClassProgram, codes: Mapping[int, TimedCode]) -> Segments:
        """Those of a part, whatever the prices of its codes."""
        stream = next(number for number, entries in enumerate(linked.streams) if entries.name == COMPUTE)
        which = np.full(len(linked.streams[stream]), NOTHING, dtype=np.int64)
        counts = [np.zeros(1, dtype=np.int64)]
        kernels: list[tuple[int, Ints]] = []
        known = 0
        for code, executions in linked.by_code().items():
            timed = codes[code]
            if COMPUTE not in timed.streams:
                continue
            local = timed.streams.index(COMPUTE)
            own = np.flatnonzero(timed.stream_of == local)
            kernels.append((code, own))
            entries, sizes = np.unique(timed.entry[own], return_counts=True)
            numbers = np.full(len(timed.tracks[local]), NOTHING, dtype=np.int64)
            numbers[entries] = known + np.arange(len(entries))
            known += len(entries)
            counts.append(sizes)
            which[linked.bases[executions, stream][:, None] + np.arange(len(numbers))] = numbers
        return cls(which, np.cumsum(np.concatenate(counts)), tuple(kernels))

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def longest(self) -> int:
        """The most kernels of one segment."""
        return int(np.diff(self.first).max(initial=0))

    def durations(self, parts: Ints) -> Ints:
        """Nanoseconds of every segment that nothing slows, of the ``parts`` of its kernels."""
        sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(parts.sum(axis=1))])
        return np.asarray(np.diff(sums[self.first]), dtype=np.int64)
