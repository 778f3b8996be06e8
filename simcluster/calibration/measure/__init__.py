"""Micro-benchmarks on a real device, and the device and host files that are fitted to them.

measured = measure(TorchBackend("cuda"))
fit, data = measured_device(measured, like="h100-sxm")
host = measured_host(measured, data, this_processor(), like="dgx-h100")
"""

from simcluster.calibration.measure.backend import Backend
from simcluster.calibration.measure.benchmark import Benchmark, benchmarks
from simcluster.calibration.measure.device_collective import DeviceCollective, collective_benchmarks
from simcluster.calibration.measure.device_measurement import (
    DeviceMeasurement,
    best_rates,
    measure,
    measured_device,
    measured_errors,
    short_launches,
    sustained_launches,
)
from simcluster.calibration.measure.host_measurement import HostFit, host_like, measured_host
from simcluster.calibration.measure.processor_facts import ProcessorFacts, facts_of, this_processor
from simcluster.calibration.measure.torch_backend import TorchBackend

__all__ = [
    "Backend",
    "Benchmark",
    "DeviceCollective",
    "DeviceMeasurement",
    "HostFit",
    "ProcessorFacts",
    "TorchBackend",
    "benchmarks",
    "best_rates",
    "collective_benchmarks",
    "facts_of",
    "host_like",
    "measure",
    "measured_device",
    "measured_errors",
    "measured_host",
    "short_launches",
    "sustained_launches",
    "this_processor",
]
