"""All executions of a class strung together: for each stream one long list of entries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

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
