"""The physical figures of a device that measured kernels can show, and where they stand in its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from simcluster.cluster import Device, EfficiencyCurve
from simcluster.deferred_dataclass import dataclass
from simcluster.work import DType, Kernel

KEYS = (512, 1024, 2048, 4096, 8192, 16384, 65536)
"""Numbers of keys at which a share of attention is written."""

STREAM_BYTES = (10**6, 10**7, 6 * 10**7, 4 * 10**8, 3 * 10**9)
"""Bytes at which a share of the memory bandwidth is written."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A figure above zero that is fitted on a logarithmic scale.

    ``key`` is its path in a device file. ``prior`` is what is taken before rows speak: what vendors state, or
    what holds for most devices; ``trust`` is how far a device may be from it, as a standard deviation of the
    logarithm.
    """

    key: str
    read: Callable[[Device], float]
    write: Callable[[Device, float], Device]
    prior: float
    trust: float
    least: float
    most: float


def _gemm(key: str, field: str, prior: float, trust: float, least: float, most: float) -> Parameter:
    def write(device: Device, value: float) -> Device:
        changes: dict[str, Any] = {field: value}
        return replace(device, gemm=replace(device.gemm, **changes))

    return Parameter(key, lambda device: float(getattr(device.gemm, field)), write, prior, trust, least, most)


def _layout(key: str, place: int) -> Parameter:
    def write(device: Device, value: float) -> Device:
        layouts = list(device.gemm.layouts)
        layouts[place] = value
        return replace(device, gemm=replace(device.gemm, layouts=(layouts[0], layouts[1])))

    return Parameter(
        f"gemm.layouts.{key}", lambda device: device.gemm.layouts[place], write, 1.0, 0.1, 0.5, 1.5
    )


def format_share(dtype: DType) -> Parameter:
    """The share of its peak that matmuls in a format reach."""

    def read(device: Device) -> float:
        return dict(device.gemm.formats).get(dtype, device.gemm.sustained)

    def write(device: Device, value: float) -> Device:
        formats = {**dict(device.gemm.formats), dtype: value}
        return replace(device, gemm=replace(device.gemm, formats=tuple(formats.items())))

    return Parameter(f"gemm.formats.{dtype}", read, write, 0.8, 0.3, 0.1, 0.97)


SUSTAINED = _gemm("gemm.sustained", "sustained", 0.8, 0.3, 0.1, 0.97)
BURST = _gemm("gemm.burst", "burst", 1.0, 0.3, 1.0, 2.0)
TRAFFIC = _gemm("gemm.traffic", "traffic", 64.0, 0.5, 4.0, 200.0)
RAMP = _gemm("gemm.ramp", "ramp", 128.0, 0.7, 8.0, 2000.0)
GEMM_START = _gemm("gemm.start", "start", 3e-6, 1.0, 1e-8, 2e-5)
INPUT_GRADIENT = _layout("input_gradient", 0)
WEIGHT_GRADIENT = _layout("weight_gradient", 1)
GROUPED = _gemm("gemm.grouped.speed", "grouped", 1.0, 0.3, 0.2, 1.5)
GROUP_ROWS = _gemm("gemm.grouped.rows", "group_rows", 64.0, 2.0, 30.0, 3000.0)


def _attention(key: str, field: str, prior: float, trust: float, least: float, most: float) -> Parameter:
    def write(device: Device, value: float) -> Device:
        changes: dict[str, Any] = {field: value}
        return replace(device, attention=replace(device.attention, **changes))

    return Parameter(
        key, lambda device: float(getattr(device.attention, field)), write, prior, trust, least, most
    )


CAUSAL = _attention("attention.causal", "causal", 0.92, 0.15, 0.4, 1.0)
BACKWARD = _attention("attention.backward", "backward", 0.86, 0.3, 0.2, 1.5)


def attention_share(head_dim: int) -> Parameter:
    """The share that attention reaches at the longest sequences; the curve keeps its form."""

    def read(device: Device) -> float:
        return dict(device.attention.forward)[head_dim].points[-1][1]

    def write(device: Device, value: float) -> Device:
        curves = dict(device.attention.forward)
        points = curves[head_dim].points
        times = value / points[-1][1]
        curves[head_dim] = EfficiencyCurve(tuple((size, min(0.97, share * times)) for size, share in points))
        return replace(device, attention=replace(device.attention, forward=tuple(sorted(curves.items()))))

    return Parameter(f"attention.forward.{head_dim}", read, write, 0.6, 0.4, 0.05, 0.95)


def half_length(head_dims: tuple[int, ...]) -> Parameter:
    """Keys at which attention reaches half of its share: loading queries, the softmax's first passes."""

    def read(device: Device) -> float:
        points = dict(device.attention.forward)[head_dims[-1]].points
        size, share = points[0]
        # The form is share = most x keys / (keys + half); the first and the last point give both.
        last, most = points[-1]
        ratio = share / most
        return max(1.0, size * last * (1 - ratio) / max(1e-9, last * ratio - size))

    def write(device: Device, value: float) -> Device:
        curves = dict(device.attention.forward)
        for dim in head_dims:
            most = curves[dim].points[-1][1] * (KEYS[-1] + value) / KEYS[-1]
            points = tuple((float(keys), min(0.97, most * keys / (keys + value))) for keys in KEYS)
            curves[dim] = EfficiencyCurve(points)
        return replace(device, attention=replace(device.attention, forward=tuple(sorted(curves.items()))))

    return Parameter("attention.half_length", read, write, 250.0, 1.0, 1.0, 4000.0)


def _stream_form(most: float, half: float) -> EfficiencyCurve:
    points = ((float(size), most * size / (size + half)) for size in STREAM_BYTES)
    return EfficiencyCurve(tuple((size, min(0.97, share)) for size, share in points))


def stream_share(kernel: Kernel) -> Parameter:
    """The share of the memory bandwidth that a memory-bound kernel reaches on the largest tensors."""

    def read(device: Device) -> float:
        return device.streaming[kernel].points[-1][1]

    def write(device: Device, value: float) -> Device:
        points = device.streaming[kernel].points
        times = value / points[-1][1]
        curve = EfficiencyCurve(tuple((size, min(0.97, share * times)) for size, share in points))
        return with_stream(device, {kernel: curve})

    return Parameter(f"streaming.{kernel}", read, write, 0.85, 0.2, 0.05, 0.95)


def half_bytes(kernel: Kernel) -> Parameter:
    """Bytes at which a memory-bound kernel reaches half of its share."""

    def read(device: Device) -> float:
        (size, share), (last, most) = device.streaming[kernel].points[0], device.streaming[kernel].points[-1]
        ratio = share / most
        return max(1e3, size * last * (1 - ratio) / max(1e-9, last * ratio - size))

    def write(device: Device, value: float) -> Device:
        most = device.streaming[kernel].points[-1][1] * (STREAM_BYTES[-1] + value) / STREAM_BYTES[-1]
        return with_stream(device, {kernel: _stream_form(most, value)})

    return Parameter(f"streaming.{kernel}.half", read, write, 1e5, 1.0, 1e3, 1e9)


def with_stream(device: Device, curves: Mapping[Kernel, EfficiencyCurve]) -> Device:
    """The device with other curves of memory-bound kernels."""
    return replace(device, streaming={**device.streaming, **curves})
