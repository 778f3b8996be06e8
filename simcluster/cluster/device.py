"""A device: what it computes per second, what it holds, and how long a kernel takes on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from simcluster.cluster.attention import AttentionModel
from simcluster.cluster.communication import Communication
from simcluster.cluster.curve import Curve
from simcluster.cluster.gemm import GemmModel
from simcluster.cluster.price import Price, nanoseconds
from simcluster.cluster.speed import Speed
from simcluster.errors import PlanError
from simcluster.work import DType, Kernel, Work


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """One accelerator or processor socket that runs a stream of kernels.

    ``peak``: dense FLOP/s of the matrix units by dtype, a multiply-add counted as two; ``vector``: FLOP/s of
    the other units. ``memory``: bytes a framework may use, before ``reserved`` (what the runtime takes once:
    context, libraries) and ``communicator`` (what every communicator takes). ``memory_bandwidth``: bytes/s.
    ``launch``: seconds every kernel costs beside its work; ``dispatch``: seconds of host time per operator,
    a floor under its time. ``streaming``: share of the memory bandwidth a memory-bound kernel reaches over
    the bytes it moves, by kernel. ``communication``: what it takes of the device; None: kernels beside it are
    not slowed. Two devices are one only if they are the same object.
    """

    name: str
    kind: str
    peak: Mapping[DType, float]
    vector: Mapping[DType, float]
    memory: int
    memory_bandwidth: float
    reserved: int
    communicator: int
    launch: float
    dispatch: float
    gemm: GemmModel
    attention: AttentionModel
    streaming: Mapping[Kernel, Curve]
    communication: Communication | None = None
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
            body = sum(self._body(work) for work in works)
            total = max(1, nanoseconds(max(body + len(works) * self.launch, floor)))
            busy = min(nanoseconds(body), total)
            streamed = sum(self._body(work) for work in works if self._waits_for_memory(work))
            price = self._prices[key] = Price(busy, total - busy, min(nanoseconds(streamed), busy))
        return price

    def at(self, speed: Speed) -> Device:
        """The same device at another speed; what launches and dispatch cost stays."""
        return replace(
            self,
            peak={dtype: rate * speed.compute for dtype, rate in self.peak.items()},
            vector={dtype: rate * speed.compute for dtype, rate in self.vector.items()},
            memory_bandwidth=self.memory_bandwidth * speed.memory_bandwidth,
        )

    def _body(self, work: Work) -> float:
        seconds = self._bodies.get(work)
        if seconds is None:
            seconds = self._bodies[work] = self._price_body(work)
        return seconds

    def _waits_for_memory(self, work: Work) -> bool:
        """Whether a kernel takes as long as its bytes, not longer."""
        matrix = work.kernel in (Kernel.GEMM, Kernel.CONV, Kernel.ATTENTION)
        return self._body(work) <= self._streaming_time(
            Kernel.COPY if matrix else work.kernel, work.bytes_moved
        )

    def _price_body(self, work: Work) -> float:
        if work.kernel in (Kernel.GEMM, Kernel.CONV):
            return self._gemm_body(work)
        if work.kernel is Kernel.ATTENTION:
            return self._attention_body(work)
        compute = work.flops / self.vector[work.dtype] if work.dtype in self.vector else 0.0
        return max(compute, self._streaming_time(work.kernel, work.bytes_moved))

    def _gemm_body(self, work: Work) -> float:
        sizes = dict(work.sizes)
        if not {"m", "n", "k"} <= sizes.keys():
            raise PlanError(
                f"a {work.kernel} without the sizes m, n, k cannot be priced",
                hint="a convolution is priced as its implicit matmul: b, m, n, k",
            )
        bandwidth = self.memory_bandwidth * self.streaming[Kernel.COPY].at(max(1, work.bytes_moved))
        return self.gemm.seconds(
            sizes.get("b", 1),
            sizes["m"],
            sizes["n"],
            sizes["k"],
            work.dtype,
            self._matrix_rate(work),
            bandwidth,
            work.bytes_moved,
        )

    def _attention_body(self, work: Work) -> float:
        sizes = dict(work.sizes)
        compute = self.attention.seconds(
            sizes["b"],
            sizes["h"],
            sizes["sq"],
            sizes["skv"],
            sizes["d"],
            bool(sizes.get("causal", 0)),
            bool(sizes.get("backward", 0)),
            work.flops,
            self._matrix_rate(work),
        )
        return max(compute, self._streaming_time(Kernel.COPY, work.bytes_moved))

    def _streaming_time(self, kernel: Kernel, num_bytes: int) -> float:
        if num_bytes <= 0:
            return 0.0
        return num_bytes / (self.memory_bandwidth * self.streaming[kernel].at(num_bytes))

    def _matrix_rate(self, work: Work) -> float:
        if work.dtype not in self.peak:
            known = ", ".join(str(dtype) for dtype in self.peak)
            raise PlanError(
                f"{self.name} has no rate for a {work.kernel} in {work.dtype}", hint=f"it has: {known}"
            )
        return self.peak[work.dtype]
