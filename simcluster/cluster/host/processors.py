"""What the processors of a host do: how much of a core's time kernels take there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from simcluster.cluster.device import Device
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.work import Kernel, Work

LARGE = 1 << 30
"""Bytes of a kernel that nothing but memory holds up."""


@dataclass(frozen=True, slots=True)
class KernelOnCores:
    """A kernel that waits for memory, on one core: seconds for every row that it looks for, sorts or sums up,
    and bytes/s that pass through the core besides.
    """

    row: float
    bandwidth: float


@dataclass(frozen=True, slots=True)
class CoreWork:
    """What a kernel takes: first nanoseconds of ``cores``, then ``num_bytes``, of which every byte takes
    ``per_byte`` nanoseconds of a core.
    """

    kernel: Kernel
    cores: float
    num_bytes: int
    per_byte: float


@dataclass(frozen=True, slots=True, eq=False)
class HostKernels:
    """Kernels on the cores of a host; an operator runs on at most ``threads`` of them.

    Two are one only if they are the same object.
    """

    threads: int = 0
    kernels: Mapping[Kernel, KernelOnCores] = field(default_factory=dict)

    @classmethod
    def of_sockets(cls, device: Device, cores: int) -> HostKernels:
        """Those of sockets that are devices, as their file has kernels that wait for memory: all cores
        together reach the share of the memory's bandwidth that such a kernel reaches on the device.
        """
        reached = {
            kernel: device.memory_bandwidth * curve.at(LARGE) / cores
            for kernel, curve in device.streaming.items()
        }
        kernels = {kernel: KernelOnCores(0.0, bandwidth) for kernel, bandwidth in reached.items()}
        return cls(cores, kernels)

    def knows(self, kernel: Kernel) -> bool:
        """Whether a kernel can be priced."""
        return kernel in self.kernels

    def per_byte(self, kernel: Kernel) -> float:
        """Nanoseconds of a core for every byte of a kernel."""
        return 1e9 / self.kernels[kernel].bandwidth

    def effort(self, work: Work) -> CoreWork:
        """What a kernel takes; PlanError if nothing is known of its kind."""
        if work.kernel not in self.kernels:
            known = ", ".join(self.kernels) or "no kernel"
            raise PlanError(f"the host has no figures for a {work.kernel} on its processors: it has {known}")
        rows = dict(work.sizes).get("rows", 0)
        cores = rows * self.kernels[work.kernel].row * 1e9
        return CoreWork(work.kernel, cores, work.bytes_moved, self.per_byte(work.kernel))
