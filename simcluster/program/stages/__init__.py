"""What one pipeline stage is lowered from: its instances and buffers, what crosses its boundary, its
timetable as executions.
"""

from simcluster.program.stages.schedule_expansion import Acted
from simcluster.program.stages.stage_boundary import Crossings
from simcluster.program.stages.stage_context import ONCE, Part
from simcluster.program.stages.value_names import holders

__all__ = ["ONCE", "Acted", "Crossings", "Part", "holders"]
