"""The executions of a part, linked before anything has a duration: what all its classes share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.linking.class_program import ClassProgram
from simcluster.engine.linking.entry_types import EntryTypes
from simcluster.engine.linking.segments import Segments
from simcluster.engine.linking.timed_code import NOTHING, TimedCode
from simcluster.program import COMPUTE, Program

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class LinkedPart:
    """Which part of a Program is linked, from ``codes`` whose prices are those of any class.

    ``untimed`` is a program of entries that take no time. ``rows`` has for each of its streams the row of
    every entry among those of all codes on the stream, as ``tracks`` has them: (code, its own number of the
    stream), one behind the other; behind them is a row for entries that only wait.
    """

    program: Program
    codes: Mapping[int, TimedCode]
    untimed: ClassProgram
    tracks: Sequence[Sequence[tuple[int, int]]]
    rows: Sequence[Ints]
    _kinds: dict[int, EntryTypes] = field(default_factory=dict, init=False, repr=False)

    def timed(self, codes: Mapping[int, TimedCode]) -> ClassProgram:
        """The program of a class that does these codes in these times."""
        streams = []
        for stream, tracks, rows in zip(self.untimed.streams, self.tracks, self.rows, strict=True):
            durations = [codes[code].tracks[own].duration for code, own in tracks]
            durations.append(np.zeros(1, dtype=np.int64))
            streams.append(replace(stream, duration=np.concatenate(durations)[rows]))
        return replace(self.untimed, streams=tuple(streams))

    @property
    def num_entries(self) -> int:
        """Entries of all streams of a class."""
        return int(self.begins[-1])

    @cached_property
    def begins(self) -> Ints:
        """Where the entries of every stream begin among those of all, and where the last end."""
        return np.cumsum([0, *map(len, self.untimed.streams)])

    @cached_property
    def compute(self) -> int:
        """The number of the compute stream."""
        return next(number for number, stream in enumerate(self.untimed.streams) if stream.name == COMPUTE)

    @cached_property
    def awaited(self) -> Ints:
        """By entry of all streams the one that it waits for, or ``NOTHING``."""
        other, position = (
            np.concatenate([getattr(stream, name) for stream in self.untimed.streams])
            for name in ("wait_stream", "wait_position")
        )
        return np.where(other == NOTHING, NOTHING, self.begins[other] + position - 1)

    @cached_property
    def segments(self) -> Segments:
        """The entries of the compute stream."""
        return Segments.of(self.untimed, self.codes)

    def kinds(self, number: int) -> EntryTypes:
        """What the entries of a communication stream do."""
        if number not in self._kinds:
            self._kinds[number] = EntryTypes.of(self.program, self.untimed, number)
        return self._kinds[number]

    @cached_property
    def waits(self) -> Sequence[tuple[list[int], list[int]]]:
        """By stream what every entry waits for: the stream, and how many entries of it must have ended."""
        return [
            (stream.wait_stream.tolist(), stream.wait_position.tolist()) for stream in self.untimed.streams
        ]
