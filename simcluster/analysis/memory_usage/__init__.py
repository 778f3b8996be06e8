"""Allocations and releases over time, peak memory, a replay of the caching allocator, what is alive at the
peak, memory of hosts, and whether a plan fits.
"""

from simcluster.analysis.memory_usage.allocation_table import AllocationAccount
from simcluster.analysis.memory_usage.host_memory_report import summarise_host_memory
from simcluster.analysis.memory_usage.memory_report import memory_maxima, report_memory
from simcluster.analysis.memory_usage.memory_verdict import (
    RULE,
    MemoryRule,
    MemoryUse,
    MemoryVerdict,
    deciding_verdict,
    headroom,
    overall_verdict,
)

__all__ = [
    "RULE",
    "AllocationAccount",
    "MemoryRule",
    "MemoryUse",
    "MemoryVerdict",
    "deciding_verdict",
    "headroom",
    "memory_maxima",
    "overall_verdict",
    "report_memory",
    "summarise_host_memory",
]
