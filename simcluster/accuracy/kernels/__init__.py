"""Measured kernels beside their prediction from a device file, row by row.

predictions = predict_kernels(read_kernels("kernels.csv"))
print(kernels_text(predictions))
"""

from simcluster.accuracy.kernels.device_words import device_of
from simcluster.accuracy.kernels.grouping import KernelGrouping
from simcluster.accuracy.kernels.kernel_parts import KernelTask, gemm_work
from simcluster.accuracy.kernels.memory_operator import MemoryOperator
from simcluster.accuracy.kernels.predict import (
    KernelPrediction,
    predict_kernels,
    stream_seconds,
    task_seconds,
)
from simcluster.accuracy.kernels.report import kernel_errors, kernel_rows_csv, kernels_csv, kernels_text
from simcluster.accuracy.kernels.row import MeasuredKernel, read_kernels
from simcluster.accuracy.kernels.works import kernel_task

__all__ = [
    "KernelGrouping",
    "KernelPrediction",
    "KernelTask",
    "MeasuredKernel",
    "MemoryOperator",
    "device_of",
    "gemm_work",
    "kernel_errors",
    "kernel_rows_csv",
    "kernel_task",
    "kernels_csv",
    "kernels_text",
    "predict_kernels",
    "read_kernels",
    "stream_seconds",
    "task_seconds",
]
