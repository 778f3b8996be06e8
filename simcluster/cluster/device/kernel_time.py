"""How long the body of a kernel takes at given rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.device.attention import AttentionModel
from simcluster.cluster.device.gemm import GemmModel
from simcluster.cluster.device.rates import EfficiencyCurve, Rate, larger, smaller
from simcluster.errors import PlanError
from simcluster.work import DType, GemmLayout, Kernel, Work

HALF_BITS = 16
"""Bits of the formats that attention's shares are those of."""


class DeviceRates(Protocol):
    """FLOP/s of the matrix units and of the others by dtype, and bytes/s of the memory."""

    @property
    def peak(self) -> Mapping[DType, Rate]: ...  # noqa: D102

    @property
    def vector(self) -> Mapping[DType, Rate]: ...  # noqa: D102

    @property
    def memory_bandwidth(self) -> Rate: ...  # noqa: D102


class KernelModels(Protocol):
    """What stays the same at any speed: how well kernels use the units."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def gemm(self) -> GemmModel: ...  # noqa: D102

    @property
    def attention(self) -> AttentionModel: ...  # noqa: D102

    @property
    def convolution(self) -> float | None: ...  # noqa: D102

    @property
    def streaming(self) -> Mapping[Kernel, EfficiencyCurve]: ...  # noqa: D102


def body_seconds(work: Work, models: KernelModels, rates: DeviceRates) -> Rate:
    """Seconds of one kernel without its launch.

    Raises PlanError if there is no rate for the work's dtype.
    """
    if work.kernel in (Kernel.GEMM, Kernel.CONV):
        return _gemm(work, models, rates)
    if work.kernel is Kernel.ATTENTION:
        return _attention(work, models, rates)
    compute = work.flops / rates.vector[work.dtype] if work.dtype in rates.vector else 0.0
    return larger(compute, streaming_time(work.kernel, work.bytes_moved, models, rates))


def _gemm(work: Work, models: KernelModels, rates: DeviceRates) -> Rate:
    sizes = dict(work.sizes)
    share = (models.convolution or 1.0) if work.kernel is Kernel.CONV else 1.0
    if not {"m", "n", "k"} <= sizes.keys():
        raise PlanError(
            f"a {work.kernel} without the sizes m, n, k cannot be priced",
            hint="a convolution is priced as its implicit matmul: b, m, n, k",
        )
    return models.gemm.seconds(
        sizes.get("b", 1),
        sizes["m"],
        sizes["n"],
        sizes["k"],
        work.dtype,
        _matrix_rate(work, models, rates) * share,
        rates.memory_bandwidth * models.streaming[Kernel.COPY].at(max(1, work.bytes_moved)),
        work.bytes_moved,
        sizes.get("aligned"),
        GemmLayout(sizes.get("layout", 0)),
        bool(sizes.get("grouped", 0)),
    )


def _attention(work: Work, models: KernelModels, rates: DeviceRates) -> Rate:
    sizes = dict(work.sizes)
    head_dim = sizes["d"]
    value_dim = sizes.get("dv", head_dim)
    backward = bool(sizes.get("backward", 0))
    flops = work.flops
    if backward and value_dim < head_dim:
        # Backward kernels pad values to the size of keys: five products of one size, not three and two.
        flops = flops * 5 * head_dim // (3 * head_dim + 2 * value_dim)
        value_dim = head_dim
    compute = models.attention.seconds(
        sizes["b"],
        sizes["h"],
        sizes["sq"],
        sizes["skv"],
        # Heads of two sizes run as well as heads of their mean would.
        (head_dim + value_dim) // 2,
        bool(sizes.get("causal", 0)),
        backward,
        flops,
        _attention_rate(work, models, rates),
        sizes.get("release", 0),
        sizes.get("before", 0),
    )
    return larger(compute, streaming_time(Kernel.COPY, work.bytes_moved, models, rates))


def _attention_rate(work: Work, models: KernelModels, rates: DeviceRates) -> Rate:
    rate = _matrix_rate(work, models, rates)
    if work.dtype.bits >= HALF_BITS or not models.attention.narrow:
        return rate
    return smaller(rate, rates.peak.get(DType.BF16, rate) * models.attention.narrow)


def streaming_time(kernel: Kernel, num_bytes: int, models: KernelModels, rates: DeviceRates) -> Rate:
    """Seconds in which a kernel's bytes pass the memory."""
    if num_bytes <= 0:
        return 0.0
    return num_bytes / (rates.memory_bandwidth * models.streaming[kernel].at(num_bytes))


def waits_for_memory(
    work: Work, seconds: Rate, models: KernelModels, rates: DeviceRates
) -> NDArray[np.bool_] | bool:
    """Whether a kernel whose body takes ``seconds`` takes as long as its bytes, not longer."""
    matrix = work.kernel in (Kernel.GEMM, Kernel.CONV, Kernel.ATTENTION)
    kernel = Kernel.COPY if matrix else work.kernel
    return seconds <= streaming_time(kernel, work.bytes_moved, models, rates)


def _matrix_rate(work: Work, models: KernelModels, rates: DeviceRates) -> Rate:
    if work.dtype not in rates.peak:
        known = ", ".join(str(dtype) for dtype in rates.peak)
        raise PlanError(
            f"{models.name} has no rate for a {work.kernel} in {work.dtype}", hint=f"it has: {known}"
        )
    return rates.peak[work.dtype]
