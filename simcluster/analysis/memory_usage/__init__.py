"""Allocations and releases over time, peak memory, a replay of the caching allocator, what is alive at the
peak, memory of hosts, and whether a plan fits.
"""

from simcluster.analysis.memory_usage.allocation_log import CATEGORIES, account, used
from simcluster.analysis.memory_usage.allocation_table import memory
from simcluster.analysis.memory_usage.allocator_replay import Reserve, reserve
from simcluster.analysis.memory_usage.caching_allocator import PoolRules
from simcluster.analysis.memory_usage.host_memory_report import HostMemory, host_memory
from simcluster.analysis.memory_usage.live_set import alive, by_name
from simcluster.analysis.memory_usage.memory_report import memory_by_stage, memory_maxima, with_verdicts
from simcluster.analysis.memory_usage.memory_verdict import (
    RULE,
    MemoryRule,
    MemoryUse,
    MemoryVerdict,
    deciding,
    headroom,
    outside,
    verdict_of,
)
from simcluster.analysis.memory_usage.peak_memory import peaks
from simcluster.analysis.memory_usage.peak_report import class_peaks, program_of

__all__ = [
    "CATEGORIES",
    "RULE",
    "HostMemory",
    "MemoryRule",
    "MemoryUse",
    "MemoryVerdict",
    "PoolRules",
    "Reserve",
    "account",
    "alive",
    "by_name",
    "class_peaks",
    "deciding",
    "headroom",
    "host_memory",
    "memory",
    "memory_by_stage",
    "memory_maxima",
    "outside",
    "peaks",
    "program_of",
    "reserve",
    "used",
    "verdict_of",
    "with_verdicts",
]
