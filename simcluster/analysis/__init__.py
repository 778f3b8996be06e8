"""What the times of a run mean: when instructions ran, why kernels waited, what memory held, and the figures
of a step.
"""

from simcluster.analysis.class_splits import find_class_splits
from simcluster.analysis.lazy_trace import LazyTrace
from simcluster.analysis.memory_usage import (
    RULE,
    AllocationAccount,
    MemoryRule,
    MemoryUse,
    MemoryVerdict,
    build_allocation_table,
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
    Flops,
    assumptions,
    dispatch_counts,
    inference_figures,
    prefill_flops,
    step_flops,
    summarise_run,
    summarise_servers,
    wait_times,
)
from simcluster.analysis.placed_program import PlacedProgram
from simcluster.analysis.timeline import find_idle_gaps, instruction_times, record_run

__all__ = [
    "ATTENTION_METRICS",
    "INFERENCE_METRICS",
    "METRICS",
    "RULE",
    "SHARED_METRICS",
    "AllocationAccount",
    "Flops",
    "LazyTrace",
    "MemoryRule",
    "MemoryUse",
    "MemoryVerdict",
    "PlacedProgram",
    "assumptions",
    "build_allocation_table",
    "deciding_verdict",
    "dispatch_counts",
    "find_class_splits",
    "find_idle_gaps",
    "headroom",
    "inference_figures",
    "instruction_times",
    "memory_maxima",
    "overall_verdict",
    "prefill_flops",
    "program_of",
    "record_run",
    "report_memory",
    "step_flops",
    "summarise_host_memory",
    "summarise_run",
    "summarise_servers",
    "wait_times",
]
