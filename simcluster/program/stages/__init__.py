"""What one pipeline stage is lowered from: its instances and buffers, what crosses its boundary, its
timetable as executions.
"""

from simcluster.program.stages.schedule_expansion import ScheduleExpansion
from simcluster.program.stages.stage_boundary import BoundaryTensors
from simcluster.program.stages.stage_context import ONCE, StageContext
from simcluster.program.stages.value_names import shared_parameter_holders

__all__ = ["ONCE", "BoundaryTensors", "ScheduleExpansion", "StageContext", "shared_parameter_holders"]
