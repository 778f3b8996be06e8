"""The figures of a run: step time, throughput, MFU, FLOPs, traffic, host dispatch, and those of inference."""

from simcluster.analysis.metrics.model_flops import Flops, forward_flops, matrix_flops

__all__ = ["Flops", "forward_flops", "matrix_flops"]
