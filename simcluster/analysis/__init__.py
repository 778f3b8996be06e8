"""What the times of a run mean: when instructions ran, why kernels waited, what memory held, and the figures
of a step.
"""

from simcluster.analysis.lazy_trace import LazyTrace
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
    program_of,
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
from simcluster.analysis.timeline import (
    NameIndex,
    find_idle_gaps,
    instruction_times,
    number_by_appearance,
    record_run,
)

__all__ = [
    "ATTENTION_METRICS",
    "INFERENCE_METRICS",
    "METRICS",
    "RULE",
    "SHARED_METRICS",
    "AllocationAccount",
    "LazyTrace",
    "MemoryRule",
    "MemoryUse",
    "MemoryVerdict",
    "NameIndex",
    "deciding_verdict",
    "find_idle_gaps",
    "headroom",
    "inference_figures",
    "instruction_times",
    "memory_maxima",
    "number_by_appearance",
    "overall_verdict",
    "program_of",
    "record_run",
    "report_memory",
    "summarise_host_memory",
    "summarise_run",
    "summarise_servers",
    "time_use_document",
    "wait_times",
]
