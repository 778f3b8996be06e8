"""What the times of a run mean: when instructions ran, why kernels waited, what memory held, and the figures
of a step.
"""

from typing import TYPE_CHECKING

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
    dispatch_counts,
    inference_figures,
    summarise_run,
    summarise_servers,
    time_use_document,
    wait_times,
)
from simcluster.analysis.placed_program import PlacedProgram
from simcluster.analysis.timeline import find_idle_gaps, instruction_times, record_run
from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.analysis.critical_path import (
        critical_path_document,
        may_have_critical_path,
    )
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "critical_path": "critical_path_document may_have_critical_path",
        },
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
    "PlacedProgram",
    "critical_path_document",
    "deciding_verdict",
    "dispatch_counts",
    "find_idle_gaps",
    "headroom",
    "inference_figures",
    "instruction_times",
    "may_have_critical_path",
    "memory_maxima",
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
