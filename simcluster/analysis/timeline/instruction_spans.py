"""Start and end of every instruction of every execution, from the times of stream entries."""

from __future__ import annotations

import numpy as np

from simcluster.analysis.timeline.event_index import EventIndex
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import ClassTiming
from simcluster.number_arrays import Ints


@dataclass(frozen=True)
class InstructionTimes:
    """Start, end and arrival of every instruction of a code: arrays [executions, instructions]."""

    executions: Ints
    starts: Ints
    ends: Ints
    arrivals: Ints


def instruction_times(timing: ClassTiming) -> dict[int, InstructionTimes]:
    """Code -> when each of its instructions ran, for all executions of a class."""
    events = EventIndex.of(timing.group.group.part)
    times = events.times(np.arange(events.zero), timing.group, timing.columns).reshape(3, events.count)
    times_by_code = {}
    for code, executions in events.executions.items():
        shape = len(executions), len(events.part.codes[code].entry)
        own = times[:, events.first[code] :][:, : shape[0] * shape[1]]
        times_by_code[code] = InstructionTimes(executions, *(column.reshape(shape) for column in own))
    return times_by_code
