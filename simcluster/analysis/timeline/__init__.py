"""When every instruction of a class ran, the recording that traces are made of, idle gaps with their causes,
and the breakdown of a step.
"""

from simcluster.analysis.timeline.event_index import (
    ARRIVAL,
    END,
    START,
    EventIndex,
    InstructionTimes,
    instruction_times,
)
from simcluster.analysis.timeline.exposed_collectives import Place, exposed_times
from simcluster.analysis.timeline.idle_gaps import find_idle_gaps
from simcluster.analysis.timeline.step_breakdown import PARTS, WAITS, StepBreakdown, break_down

__all__ = [
    "ARRIVAL",
    "END",
    "PARTS",
    "START",
    "WAITS",
    "EventIndex",
    "InstructionTimes",
    "Place",
    "StepBreakdown",
    "break_down",
    "exposed_times",
    "find_idle_gaps",
    "instruction_times",
]
