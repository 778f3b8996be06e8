"""What the entries of a stream do: few kinds of communication, many times over, or segments of kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.linking.code_entries import CodeEntries
from simcluster.number_arrays import Ints, offsets
from simcluster.program import COMPUTE, Program

PARTS = 3
"""Parts of a kernel, in this order: bound by units, bound by memory, and launches and dispatch."""


@dataclass(frozen=True, slots=True)
class EntryTypes:
    """The entries of a communication stream by what they do.

    ``places`` [kinds] are (code, instruction). ``which`` [entries] of these each does, and its ``ordinals``
    [entries]: those who meet in it meet for so many-th time on this stream, from 0.
    """

    places: list[tuple[int, int]]
    which: Ints
    ordinals: Ints

    @classmethod
    def of(cls, program: Program, code_of: Ints, execution: Ints, instruction: Ints) -> EntryTypes:
        """Those of a stream whose entries do an ``instruction`` of the code of an ``execution``; ``code_of``
        has those of all executions.
        """
        used, codes = np.unique(code_of, return_inverse=True)
        longest = int(instruction.max(initial=0)) + 1
        keys = codes[execution] * longest + instruction
        # Kinds are numbered as they come: of equal keys the first, written last, stays.
        first = np.full(len(used) * longest, len(keys))
        first[keys[::-1]] = np.arange(len(keys))[::-1]
        known = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(keys))]
        number_of = np.empty_like(first)
        number_of[known] = np.arange(len(known))
        places = list(zip(used[known // longest].tolist(), (known % longest).tolist(), strict=True))
        which = number_of[keys]
        ordinals = np.zeros_like(which)
        axes = [program.codes[code].instructions[index].group for code, index in places]
        for group in dict.fromkeys(axes):
            own = np.flatnonzero(np.array([other == group for other in axes])[which])
            ordinals[own] = np.arange(len(own))
        return cls(places, which, ordinals)


@dataclass(frozen=True, slots=True)
class Segments:
    """Kernels that run one after another without anybody waiting in between.

    ``which`` [entries] is the segment of an entry; ``first`` [segments + 1] is the first kernel of each
    segment, of those that all ``kernels`` are: (code, its instructions).
    """

    which: Ints
    first: Ints
    kernels: tuple[tuple[int, Ints], ...]

    @classmethod
    def of(cls, runs: Sequence[tuple[int, CodeEntries, Ints]], length: int) -> Segments:
        """Those of a stream of this ``length``; ``runs`` are (code, its entries, where each of its executions
        begins on the stream).
        """
        which = np.zeros(length, dtype=np.int64)
        counts = [np.zeros(0, dtype=np.int64)]
        kernels: list[tuple[int, Ints]] = []
        known = 0
        for code, entries, begins in runs:
            if COMPUTE not in entries.streams:
                continue
            own = np.flatnonzero(entries.stream_of == entries.streams.index(COMPUTE))
            kernels.append((code, own))
            counts.append(np.bincount(entries.entry[own]))
            numbers = np.arange(len(counts[-1]))
            which[begins[:, np.newaxis] + numbers] = known + numbers
            known += len(numbers)
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
