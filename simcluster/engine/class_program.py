"""All executions of a class strung together: for each stream one long list of entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.timed import TimedCode
from simcluster.program import BlockExecution, Executions

Ints = NDArray[np.int64]

BARRIER = -1
"""The execution of an entry that only waits."""


@dataclass(frozen=True)
class LinkedStream:
    """The entries of one stream of one class over the whole run.

    Columns as in ``Track``, with ``wait_stream`` an index into the class's streams and ``wait_position``
    absolute; ``execution`` is the index of the execution (``BARRIER`` for entries that only wait).
    """

    name: str
    wait_stream: Ints
    wait_position: Ints
    duration: Ints
    meeting: Ints
    execution: Ints

    def __len__(self) -> int:
        return len(self.duration)


@dataclass(frozen=True)
class ClassProgram:
    """The streams of one class, and for each execution the position of its first entry on each stream.

    ``bases`` has shape [executions, streams]: those of the part, ``one_step``, once for each of ``steps``.
    """

    streams: tuple[LinkedStream, ...]
    bases: Ints
    one_step: Executions
    steps: int

    @cached_property
    def executions(self) -> tuple[BlockExecution, ...]:
        """The executions of all steps, one by one."""
        return self.one_step.objects * self.steps

    @cached_property
    def code_of(self) -> Ints:
        """The code that every execution runs."""
        return np.tile(self.one_step.code, self.steps)

    def by_code(self) -> dict[int, Ints]:
        """Code -> indices of its executions."""
        order = np.argsort(self.code_of, kind="stable")
        codes, first = np.unique(self.code_of[order], return_index=True)
        return dict(zip(codes.tolist(), np.split(order, first[1:]), strict=True)) if len(codes) else {}


@dataclass(frozen=True, slots=True)
class LinkedPart:
    """The executions of a part, linked before anything has a duration: what all its classes share.

    ``untimed`` is a program of entries that take no time. ``rows`` has for each of its streams the row of
    every entry among those of all codes on the stream, as ``tracks`` has them: (code, its own number of the
    stream), one behind the other; behind them is a row for entries that only wait.
    """

    untimed: ClassProgram
    tracks: tuple[tuple[tuple[int, int], ...], ...]
    rows: tuple[Ints, ...]

    def timed(self, codes: Mapping[int, TimedCode]) -> ClassProgram:
        """The program of a class that does these codes in these times."""
        streams = []
        for stream, tracks, rows in zip(self.untimed.streams, self.tracks, self.rows, strict=True):
            durations = [codes[code].tracks[own].duration for code, own in tracks]
            durations.append(np.zeros(1, dtype=np.int64))
            streams.append(replace(stream, duration=np.concatenate(durations)[rows]))
        return replace(self.untimed, streams=tuple(streams))
