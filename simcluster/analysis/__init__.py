"""What the times of a run mean: when instructions ran, why kernels waited, what memory held, and the figures
of a step.
"""

from simcluster.analysis.memory_usage import (
    RULE,
    AllocationAccount,
    MemoryRule,
    MemoryUse,
    MemoryVerdict,
    deciding_verdict,
    headroom,
    memory_maxima,
    overall_verdict,
    report_memory,
    summarise_host_memory,
)
from simcluster.analysis.metrics import (
    ATTENTION_METRICS,
    INFERENCE_METRICS,
    METRICS,
    SHARED_METRICS,
    inference_figures,
    summarise_run,
    summarise_servers,
    time_use_document,
    wait_times,
)
from simcluster.analysis.timeline import find_idle_gaps, instruction_times

__all__ = [
    "ATTENTION_METRICS",
    "INFERENCE_METRICS",
    "METRICS",
    "RULE",
    "SHARED_METRICS",
    "AllocationAccount",
    "MemoryRule",
    "MemoryUse",
    "MemoryVerdict",
    "deciding_verdict",
    "find_idle_gaps",
    "headroom",
    "inference_figures",
    "instruction_times",
    "memory_maxima",
    "overall_verdict",
    "report_memory",
    "summarise_host_memory",
    "summarise_run",
    "summarise_servers",
    "time_use_document",
    "wait_times",
]
