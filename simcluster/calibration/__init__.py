"""Device files from measurements: figures fitted to measured kernels, cross-validated, and written as YAML.

fit = cross_validated(fit_device(read_kernels("kernels.csv"), "b200-sxm"))
print(fit_text(fit))
Path("ours.yaml").write_text(device_yaml(fit))
print(run_fit_text(fit_runs(read_runs("training.csv"))))
"""

from simcluster.calibration.cross_validation import cross_validated
from simcluster.calibration.device_file import device_data, device_yaml
from simcluster.calibration.figure_yaml import yaml_text
from simcluster.calibration.fit import DeviceFit, Move, StageFit, fit_device
from simcluster.calibration.implementation_fit import (
    PassFit,
    fit_implementations,
    implementation_yaml,
    streamed_rows,
)
from simcluster.calibration.measure import (
    Benchmark,
    DeviceMeasurement,
    HostFit,
    ProcessorFacts,
    TorchBackend,
    benchmarks,
    host_like,
    measure,
    measured_device,
    measured_errors,
    measured_host,
    this_processor,
)
from simcluster.calibration.report import fit_text, passes_text
from simcluster.calibration.run_fit import RunFit, RunMove, RunTimes, fit_runs, fit_times
from simcluster.calibration.run_parameter import RUN_PARAMETERS, RunParameter
from simcluster.calibration.run_report import run_fit_text, run_fit_yaml

__all__ = [
    "RUN_PARAMETERS",
    "Benchmark",
    "DeviceFit",
    "DeviceMeasurement",
    "HostFit",
    "Move",
    "PassFit",
    "ProcessorFacts",
    "RunFit",
    "RunMove",
    "RunParameter",
    "RunTimes",
    "StageFit",
    "TorchBackend",
    "benchmarks",
    "cross_validated",
    "device_data",
    "device_yaml",
    "fit_device",
    "fit_implementations",
    "fit_runs",
    "fit_text",
    "fit_times",
    "host_like",
    "implementation_yaml",
    "measure",
    "measured_device",
    "measured_errors",
    "measured_host",
    "passes_text",
    "run_fit_text",
    "run_fit_yaml",
    "streamed_rows",
    "this_processor",
    "yaml_text",
]
