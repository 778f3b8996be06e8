"""Device files from measurements: figures fitted to measured kernels, cross-validated, and written as YAML.

fit = cross_validated(fit_device(read_kernels("kernels.csv"), "b200-sxm"))
print(fit_text(fit))
Path("ours.yaml").write_text(device_yaml(fit))
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

__all__ = [
    "Benchmark",
    "DeviceFit",
    "DeviceMeasurement",
    "HostFit",
    "Move",
    "PassFit",
    "ProcessorFacts",
    "StageFit",
    "TorchBackend",
    "benchmarks",
    "cross_validated",
    "device_data",
    "device_yaml",
    "fit_device",
    "fit_implementations",
    "fit_text",
    "host_like",
    "implementation_yaml",
    "measure",
    "measured_device",
    "measured_errors",
    "measured_host",
    "passes_text",
    "streamed_rows",
    "this_processor",
    "yaml_text",
]
