"""The figures of a run: step time, throughput, MFU, FLOPs, traffic, host dispatch, and those of inference."""

from simcluster.analysis.metrics.assumed_figures import assumptions
from simcluster.analysis.metrics.model_flops import (
    Flops,
    executed_flops,
    forward_flops,
    matrix_flops,
    prefill_flops,
    training_flops,
)

__all__ = [
    "Flops",
    "assumptions",
    "executed_flops",
    "forward_flops",
    "matrix_flops",
    "prefill_flops",
    "training_flops",
]
