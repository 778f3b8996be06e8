"""The kernels of a class's compute stream as numbered segments: what each entry runs, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.class_program import ClassProgram
from simcluster.engine.timed import NOTHING, TimedCode
from simcluster.program import COMPUTE

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segments:
    """Kernels that run one after another without anybody waiting in between.

    ``which`` [entries] is the segment of an entry, ``NOTHING`` where it only waits; ``parts`` [kernels, 3]
    are the nanoseconds of every kernel bound by units, bound by memory, and of launches and dispatch;
    ``first`` [segments + 1] is the first kernel of each segment.
    """

    which: Ints
    first: Ints
    parts: Ints
    kernels: tuple[tuple[int, Ints], ...]
    """(Code, its instructions that are kernels), in the order of ``parts``."""

    @classmethod
    def of(cls, linked: ClassProgram, codes: Mapping[int, TimedCode]) -> Segments:
        """Those of a class."""
        stream = next(number for number, entries in enumerate(linked.streams) if entries.name == COMPUTE)
        which = np.full(len(linked.streams[stream]), NOTHING, dtype=np.int64)
        counts: list[Ints] = []
        parts: list[Ints] = []
        kernels: list[tuple[int, Ints]] = []
        known = 0
        for code, executions in linked.by_code().items():
            timed = codes[code]
            if COMPUTE not in timed.streams:
                continue
            local = timed.streams.index(COMPUTE)
            own = np.flatnonzero(timed.stream_of == local)
            kernels.append((code, own))
            host, memory = timed.host[own], timed.memory[own]
            parts.append(np.stack([timed.duration[own] - host - memory, memory, host], axis=1))
            entries, sizes = np.unique(timed.entry[own], return_counts=True)
            numbers = np.full(len(timed.tracks[local]), NOTHING, dtype=np.int64)
            numbers[entries] = known + np.arange(len(entries))
            known += len(entries)
            counts.append(sizes)
            which[linked.bases[executions, stream][:, None] + np.arange(len(numbers))] = numbers
        first = np.zeros(known + 1, dtype=np.int64)
        np.cumsum(np.concatenate([np.zeros(0, dtype=np.int64), *counts]), out=first[1:])
        every = np.concatenate([np.zeros((0, 3), dtype=np.int64), *parts])
        return cls(which, first, every, tuple(kernels))

    def priced(self, parts: Ints) -> Segments:
        """The same at other prices."""
        return replace(self, parts=parts)

    @property
    def longest(self) -> int:
        """The most kernels of one segment."""
        return int(np.diff(self.first).max(initial=0))

    @property
    def durations(self) -> Ints:
        """Nanoseconds of every segment that nothing slows."""
        sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.parts.sum(axis=1))])
        return np.asarray(np.diff(sums[self.first]), dtype=np.int64)
