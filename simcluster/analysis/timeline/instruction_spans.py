"""Start and end of every instruction of every execution, from the times of stream entries."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simcluster.engine import ClassTiming, TimedCode
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
    return event_times(timing)[1]


def event_times(timing: ClassTiming) -> tuple[Ints, dict[int, InstructionTimes]]:
    """All those times one after the other, code by code, of each the starts, the ends and the arrivals, and
    after them a zero; and by code as parts of this array.
    """
    linked = timing.linked
    number = {stream.name: index for index, stream in enumerate(linked.streams)}
    lengths = [len(stream) for stream in linked.streams]
    begins = np.cumsum([0, *lengths[:-1]])
    starts, ends = np.concatenate(timing.starts), np.concatenate(timing.ends)
    ready = [
        begun if stream.name == COMPUTE else arrived
        for stream, begun, arrived in zip(linked.streams, timing.starts, timing.arrivals, strict=True)
    ]
    arrivals = np.concatenate(ready)
    by_code = linked.by_code()
    sizes = [3 * len(executions) * len(timing.codes[code].duration) for code, executions in by_code.items()]
    times = np.empty(sum(sizes) + 1, dtype=np.int64)
    times[-1] = 0
    compute = number[COMPUTE]
    times_by_code, first = {}, 0
    for (code, executions), size in zip(by_code.items(), sizes, strict=True):
        timed = timing.codes[code]
        block = times[first : first + size].reshape(3, len(executions), len(timed.duration))
        first += size
        streams = np.array([number[stream] for stream in timed.streams], dtype=np.int64)[timed.stream_of]
        place = (linked.bases[executions] + begins)[:, streams] + timed.entry
        np.take(starts, place, out=block[0])
        block[0] += np.where(streams == compute, timed.offset, 0)
        np.add(block[0], timed.duration, out=block[1])
        if len(timing.stretched):
            _stretch(timing, timed, np.flatnonzero(streams == compute), place - begins[compute], block)
        # Several kernels are one entry, all others one each; kernels are ready when they start.
        block[2] = block[0]
        others = np.flatnonzero(streams != compute)
        entries = place[:, others]
        block[1][:, others], block[2][:, others] = ends[entries], arrivals[entries]
        times_by_code[code] = InstructionTimes(executions, *block)
    return times, times_by_code


def _stretch(timing: ClassTiming, timed: TimedCode, kernels: Ints, entries: Ints, block: Ints) -> None:
    """Corrects the starts and ends of a code's kernels that were slowed."""
    begun, over = block[0][:, kernels], block[1][:, kernels]
    stretch_kernels(timing.stretched, entries[:, kernels], timed.entry[kernels], begun, over)
    block[0][:, kernels], block[1][:, kernels] = begun, over
