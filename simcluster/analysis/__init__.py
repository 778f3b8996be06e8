"""What the times of a run mean: when instructions ran, why kernels waited, what memory held, and the figures
of a step.
"""

from simcluster.analysis.class_splits import reached
from simcluster.analysis.memory_usage import (
    CATEGORIES,
    RULE,
    MemoryRule,
    MemoryUse,
    MemoryVerdict,
    PoolRules,
    Reserve,
    account,
    alive,
    by_name,
    deciding,
    headroom,
    memory,
    outside,
    peaks,
    reserve,
    used,
    verdict_of,
)
from simcluster.analysis.metrics import Flops, forward_flops, matrix_flops
from simcluster.analysis.timeline import (
    IDLE,
    PIPELINE_WAIT,
    Vocabulary,
    cut,
    cut_of,
    instruction_times,
    record,
    waits,
)

__all__ = [
    "CATEGORIES",
    "IDLE",
    "PIPELINE_WAIT",
    "RULE",
    "Flops",
    "MemoryRule",
    "MemoryUse",
    "MemoryVerdict",
    "PoolRules",
    "Reserve",
    "Vocabulary",
    "account",
    "alive",
    "by_name",
    "cut",
    "cut_of",
    "deciding",
    "forward_flops",
    "headroom",
    "instruction_times",
    "matrix_flops",
    "memory",
    "outside",
    "peaks",
    "reached",
    "record",
    "reserve",
    "used",
    "verdict_of",
    "waits",
]
