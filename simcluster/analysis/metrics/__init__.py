"""The figures of a run: step time, throughput, MFU, and those of inference and of parameter servers."""

from simcluster.analysis.metrics.inference_metrics import INFERENCE_METRICS, inference_figures
from simcluster.analysis.metrics.server_metrics import summarise_servers
from simcluster.analysis.metrics.summary import (
    ATTENTION_METRICS,
    METRICS,
    SHARED_METRICS,
    summarise_run,
    wait_times,
)
from simcluster.analysis.metrics.time_use import time_use_document

__all__ = [
    "ATTENTION_METRICS",
    "INFERENCE_METRICS",
    "METRICS",
    "SHARED_METRICS",
    "inference_figures",
    "summarise_run",
    "summarise_servers",
    "time_use_document",
    "wait_times",
]
