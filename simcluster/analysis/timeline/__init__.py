"""When every instruction of a class ran, the recording that traces are made of, idle gaps with their causes,
and the breakdown of a step.
"""

from simcluster.analysis.timeline.idle_gaps import IDLE, PIPELINE_WAIT, waits
from simcluster.analysis.timeline.instruction_spans import InstructionTimes, Vocabulary, instruction_times
from simcluster.analysis.timeline.recorder import record
from simcluster.analysis.timeline.step_breakdown import cut, cut_of

__all__ = [
    "IDLE",
    "PIPELINE_WAIT",
    "InstructionTimes",
    "Vocabulary",
    "cut",
    "cut_of",
    "instruction_times",
    "record",
    "waits",
]
