"""What measuring asks of the software that runs kernels on a real device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from simcluster.calibration.measure.benchmark import Benchmark
from simcluster.calibration.measure.device_collective import DeviceCollective


class Backend(Protocol):
    """A device and the software that runs kernels on it."""

    @property
    def device(self) -> str:
        """What the driver calls the device."""

    @property
    def software(self) -> str:
        """The software and its version."""

    @property
    def dtypes(self) -> Sequence[str]:
        """The formats of matmuls that it computes in, the usual one first."""

    @property
    def cores(self) -> int:
        """Multiprocessors, AI cores, or cores of a processor."""

    @property
    def num_devices(self) -> int:
        """Devices of the host, of which one is measured by itself."""

    @property
    def memory(self) -> int:
        """Bytes of a device's memory."""

    def times(self, benchmark: Benchmark, launches: int) -> list[float]:
        """Seconds of so many launches, each by itself; any warm-up is the caller's."""

    def dispatch_times(self, launches: int) -> list[float]:
        """Seconds of host time per operator, with gradients, so many times; the device is not waited for."""

    def copy_times(self, num_bytes: int, *, to_device: bool, launches: int) -> list[float]:
        """Seconds of so many copies between host and device, each by itself; none where both are one."""

    def collective_times(self, asked: Sequence[DeviceCollective], launches: int) -> list[list[float]]:
        """Seconds of so many launches of each collective, on the slowest rank; none where there is no such
        collective.
        """
