"""Micro-benchmarks on a real device, and the device file that is fitted to them.

found = measure(TorchBackend("cuda"))
fit, data = measured_device(found, like="h100-sxm")
"""

from simcluster.calibration.measure.backend import Backend
from simcluster.calibration.measure.benchmark import Benchmark, benchmarks
from simcluster.calibration.measure.device_measurement import (
    DeviceMeasurement,
    best_rates,
    measure,
    measured_device,
    short_time,
    sustained_time,
)
from simcluster.calibration.measure.torch_backend import TorchBackend

__all__ = [
    "Backend",
    "Benchmark",
    "DeviceMeasurement",
    "TorchBackend",
    "benchmarks",
    "best_rates",
    "measure",
    "measured_device",
    "short_time",
    "sustained_time",
]
