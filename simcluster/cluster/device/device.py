"""A device: what it computes per second, what it holds, and how long a kernel takes on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from simcluster.cluster.device.attention import AttentionModel
from simcluster.cluster.device.communication_kernels import CommunicationKernels
from simcluster.cluster.device.gemm import GemmModel
from simcluster.cluster.device.kernel_time import body_seconds, waits_for_memory
from simcluster.cluster.device.rates import DeviceSpeed, EfficiencyCurve, Price, nanoseconds
from simcluster.deferred_dataclass import dataclass
from simcluster.work import DType, Kernel, Work


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """One accelerator or processor socket that runs a stream of kernels.

    Two devices are one only if they are the same object.
    """

    name: str
    """What the catalog calls it."""
    kind: str
    """What sort of device it is: gpu, ascend or cpu."""
    peak: Mapping[DType, float]
    """Dense FLOP/s of the matrix units by dtype, a multiply-add counted as two."""
    vector: Mapping[DType, float]
    """FLOP/s of the other units by dtype."""
    memory: int
    """Bytes a framework may use, before ``reserved`` and ``communicator``."""
    memory_bandwidth: float
    """Bytes/s."""
    reserved: int
    """Bytes that the runtime takes once: context, libraries."""
    communicator: int
    """Bytes that every communicator takes."""
    launch: float
    """Seconds that every kernel costs besides its work."""
    dispatch: float
    """Seconds of host time per operator, a floor under its time."""
    gemm: GemmModel
    """How long matmuls take."""
    attention: AttentionModel
    """How long fused attention takes."""
    streaming: Mapping[Kernel, EfficiencyCurve]
    """By kernel the share of the memory bandwidth that a memory-bound one reaches, over the bytes it
    moves."""
    communication: CommunicationKernels | None = None
    """What communication takes of the device; None: kernels at the same time are not slowed."""
    convolution: float | None = None
    """Speed of a convolution against the matmul that it is; None: nothing is known, and it is as fast."""
    workspace: int = 0
    """Bytes that a handle of the matmul library takes of the framework's own memory."""
    _bodies: dict[Work, float] = field(default_factory=dict, init=False, repr=False)
    _prices: dict[tuple[tuple[Work, ...], float], Price] = field(default_factory=dict, init=False, repr=False)

    def kernel_time(self, work: Work) -> float:
        """Seconds of one kernel, its launch included.

        Raises PlanError if the device cannot compute in the work's dtype.
        """
        return self.launch + self._body(work)

    def price(self, works: Sequence[Work], dispatch: float | None = None) -> Price:
        """The time of an operator that launches ``works`` one after another.

        It takes as long as its kernels, but no less than the host needs to dispatch it: ``dispatch``
        seconds, or the device's own figure. Raises PlanError as ``kernel_time`` does.
        """
        floor = self.dispatch if dispatch is None else dispatch
        key = (tuple(works), floor)
        price = self._prices.get(key)
        if price is None:
            bodies = [(work, self._body(work)) for work in works]
            body = sum(seconds for _, seconds in bodies)
            total = max(1, nanoseconds(max(body + len(works) * self.launch, floor)))
            busy = min(nanoseconds(body), total)
            streamed = sum(kernel for work, kernel in bodies if waits_for_memory(work, kernel, self, self))
            price = self._prices[key] = Price(busy, total - busy, min(nanoseconds(streamed), busy))
        return price

    def at(self, speed: DeviceSpeed) -> Device:
        """The same device at another speed; what launches and dispatch cost stays."""
        return replace(
            self,
            peak={dtype: rate * speed.compute for dtype, rate in self.peak.items()},
            vector={dtype: rate * speed.compute for dtype, rate in self.vector.items()},
            memory_bandwidth=self.memory_bandwidth * speed.memory_bandwidth,
        )

    def in_burst(self) -> Device:
        """The same device in a run too short to warm it, near its highest clock."""
        return self if self.gemm.burst == 1 else replace(self, gemm=self.gemm.in_burst())

    def _body(self, work: Work) -> float:
        seconds = self._bodies.get(work)
        if seconds is None:
            seconds = self._bodies[work] = float(body_seconds(work, self, self))
        return seconds


@dataclass(frozen=True, slots=True)
class DispatchTime:
    """Host time per operator: ``times`` the device's own figure, or as many ``seconds`` if they are given."""

    times: float = 1.0
    seconds: float | None = None

    def of(self, device: Device) -> float:
        """Seconds of host time for one operator on a device."""
        return self.times * (device.dispatch if self.seconds is None else self.seconds)


DEVICES_OWN = DispatchTime()
"""As the files of devices have it."""
