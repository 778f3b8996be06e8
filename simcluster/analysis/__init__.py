"""What the times of a run mean: when instructions ran, why kernels waited, what memory held, and the figures
of a step.
"""

from simcluster.analysis.memory_usage.allocation_table import memory
from simcluster.analysis.memory_usage.allocator_replay import Reserve, reserve
from simcluster.analysis.memory_usage.caching_allocator import PoolRules
from simcluster.analysis.timeline.idle_gaps import waits
from simcluster.analysis.timeline.instruction_spans import instruction_times
from simcluster.analysis.timeline.recorder import record

__all__ = ["PoolRules", "Reserve", "instruction_times", "memory", "record", "reserve", "waits"]
