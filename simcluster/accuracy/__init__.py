"""Published measurements beside their prediction, row by row.

predictions = predict(read_rows("collectives.csv"))
print(accuracy_text(predictions, num_worst=10))
"""

from simcluster.accuracy.hardware import HardwareSpec, known_hardware
from simcluster.accuracy.kernels import (
    KernelGrouping,
    KernelPrediction,
    KernelTask,
    MeasuredKernel,
    device_of,
    kernel_rows_csv,
    kernel_task,
    kernels_csv,
    kernels_text,
    predict_kernels,
    read_kernels,
    stream_seconds,
    task_seconds,
)
from simcluster.accuracy.prediction import HOST_COPY, OPERATIONS, Prediction, predict
from simcluster.accuracy.report import accuracy_csv, accuracy_markdown, accuracy_text
from simcluster.accuracy.row import MeasuredRow, read_rows
from simcluster.accuracy.runs import (
    MeasuredRun,
    RunFigure,
    RunGrouping,
    band_table,
    coverage,
    predict_runs,
    read_runs,
    run_scenario_yaml,
    runs_csv,
    runs_html,
    runs_text,
    scenario_of,
)
from simcluster.accuracy.summary import (
    CollectiveGrouping,
    Errors,
    SizeClass,
    by_cluster,
    by_operation,
    errors_by_key,
    overall,
    unsupported,
    worst,
)
from simcluster.accuracy.table import column_titles

__all__ = [
    "HOST_COPY",
    "OPERATIONS",
    "CollectiveGrouping",
    "Errors",
    "HardwareSpec",
    "KernelGrouping",
    "KernelPrediction",
    "KernelTask",
    "MeasuredKernel",
    "MeasuredRow",
    "MeasuredRun",
    "Prediction",
    "RunFigure",
    "RunGrouping",
    "SizeClass",
    "accuracy_csv",
    "accuracy_markdown",
    "accuracy_text",
    "band_table",
    "by_cluster",
    "by_operation",
    "column_titles",
    "coverage",
    "device_of",
    "errors_by_key",
    "kernel_rows_csv",
    "kernel_task",
    "kernels_csv",
    "kernels_text",
    "known_hardware",
    "overall",
    "predict",
    "predict_kernels",
    "predict_runs",
    "read_kernels",
    "read_rows",
    "read_runs",
    "run_scenario_yaml",
    "runs_csv",
    "runs_html",
    "runs_text",
    "scenario_of",
    "stream_seconds",
    "task_seconds",
    "unsupported",
    "worst",
]
