"""Allocations and releases over time, peak memory, a replay of the caching allocator, what is alive at the
peak, memory of hosts, and whether a plan fits.
"""

from simcluster.analysis.memory_usage.allocation_log import CATEGORIES, used_memory_places
from simcluster.analysis.memory_usage.allocation_table import AllocationAccount
from simcluster.analysis.memory_usage.allocator_replay import ReservedMemory, replay_allocator
from simcluster.analysis.memory_usage.caching_allocator import PoolRules
from simcluster.analysis.memory_usage.host_memory_report import HostMemory, summarise_host_memory
from simcluster.analysis.memory_usage.live_set import largest_live_buffers, live_bytes_by_name
from simcluster.analysis.memory_usage.memory_report import memory_maxima, program_of, report_memory
from simcluster.analysis.memory_usage.memory_verdict import (
    RULE,
    MemoryRule,
    MemoryUse,
    MemoryVerdict,
    deciding_verdict,
    headroom,
    outside_allocator,
    overall_verdict,
)
from simcluster.analysis.memory_usage.stage_allocations import log_allocations

__all__ = [
    "CATEGORIES",
    "RULE",
    "AllocationAccount",
    "HostMemory",
    "MemoryRule",
    "MemoryUse",
    "MemoryVerdict",
    "PoolRules",
    "ReservedMemory",
    "deciding_verdict",
    "headroom",
    "largest_live_buffers",
    "live_bytes_by_name",
    "log_allocations",
    "memory_maxima",
    "outside_allocator",
    "overall_verdict",
    "program_of",
    "replay_allocator",
    "report_memory",
    "summarise_host_memory",
    "used_memory_places",
]
