"""Start and end of every instruction of every execution, from the times of stream entries."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simcluster.engine import ClassTiming
from simcluster.program import COMPUTE
from simcluster.trace import stretch_kernels

Ints = NDArray[np.int64]


@dataclass
class NameIndex:
    """Names and the numbers that stand for them."""

    names: dict[str, int] = field(default_factory=dict)

    def number(self, name: str) -> int:
        """The number of a name, new or known."""
        return self.names.setdefault(name, len(self.names))


@dataclass(frozen=True)
class InstructionTimes:
    """Start, end and arrival of every instruction of a code: arrays [executions, instructions]."""

    executions: Ints
    starts: Ints
    ends: Ints
    arrivals: Ints


def instruction_times(timing: ClassTiming) -> dict[int, InstructionTimes]:
    """Code -> when each of its instructions ran, for all executions of a class."""
    number = {stream.name: index for index, stream in enumerate(timing.linked.streams)}
    by_code = {}
    for code, executions in timing.linked.by_code().items():
        timed = timing.codes[code]
        count = len(timed.duration)
        starts = np.empty((len(executions), count), dtype=np.int64)
        ends, arrivals = np.empty_like(starts), np.empty_like(starts)
        for index, stream in enumerate(timed.streams):
            indices = np.flatnonzero(timed.stream_of == index)
            where = number[stream]
            first = timing.linked.bases[executions, where]
            entries = first[:, None] + timed.entry[indices][None, :]
            starts[:, indices] = timing.starts[where][entries] + timed.offset[indices][None, :]
            if stream == COMPUTE:
                # Several kernels are one entry.
                begun = starts[:, indices]
                over = begun + timed.duration[indices][None, :]
                stretch_kernels(timing.stretched, entries, timed.entry[indices], begun, over)
                starts[:, indices], ends[:, indices] = begun, over
                arrivals[:, indices] = starts[:, indices]
            else:
                ends[:, indices] = timing.ends[where][entries]
                arrivals[:, indices] = timing.arrivals[where][entries]
        by_code[code] = InstructionTimes(executions, starts, ends, arrivals)
    return by_code
