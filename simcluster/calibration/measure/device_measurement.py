"""Measuring a device: warm-ups, medians, and a device file from what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from simcluster.accuracy import MeasuredKernel, kernel_task
from simcluster.calibration.device_file import device_data
from simcluster.calibration.fit import DeviceFit, fit_device
from simcluster.calibration.measure.backend import Backend
from simcluster.calibration.measure.benchmark import Benchmark, benchmarks
from simcluster.cluster import DeviceSpec
from simcluster.document import validate_data

WARM_UPS, LAUNCHES = 3, 15
SETTLING = 1.0
"""Seconds of a sustained loop before its launches count."""

BEST_SHARE = 0.9
"""What the best kernels are taken to reach of a processor's rates."""

CHUNK = 20
MOST_CHUNKS = 2000
COPY_BYTES = 2**28
TINY = Benchmark("elementwise", "add", "fp32", {"elements": 16})


@dataclass(frozen=True, slots=True)
class DeviceMeasurement:
    """What was found on a device."""

    device: str
    """What its driver calls it."""
    software: str
    """What ran the kernels, with its version."""
    cores: int
    """Multiprocessors, AI cores, or cores of a processor."""
    rows: tuple[MeasuredKernel, ...]
    """The benchmarks, as rows of measured kernels."""
    launch: float
    """Seconds of the smallest kernel."""
    dispatch: float
    """Seconds of host time per operator."""
    to_device: float
    """Bytes/s of a copy from the host."""
    from_device: float
    """Bytes/s of a copy to the host."""


def measure(
    backend: Backend, *, small: bool = False, step: Callable[[str, int, int], None] | None = None
) -> DeviceMeasurement:
    """All benchmarks on a device; ``step(name, done, all)`` is told before each, for a progress bar."""
    asked = benchmarks(backend.dtypes, small=small)
    rows = []
    for number, benchmark in enumerate(asked):
        if step:
            step(benchmark.name, number, len(asked))
        seconds = (
            sustained_time(backend, benchmark) if benchmark.sustained else short_time(backend, benchmark)
        )
        rows.append(benchmark.row(number, backend.device, seconds, backend.software))
    copies = [_copy_rate(backend, to_device=to_device) for to_device in (True, False)]
    backend.dispatch_times(WARM_UPS)
    dispatch = median(backend.dispatch_times(10 * LAUNCHES))
    launch = short_time(backend, TINY)
    return DeviceMeasurement(
        backend.device, backend.software, backend.cores, tuple(rows), launch, dispatch, *copies
    )


def short_time(backend: Backend, benchmark: Benchmark) -> float:
    """The median of a few launches, after warm-ups, on a device that they do not heat."""
    backend.times(benchmark, WARM_UPS)
    return median(backend.times(benchmark, LAUNCHES))


def sustained_time(backend: Backend, benchmark: Benchmark) -> float:
    """The median of launches after a loop long enough for the clock to settle."""
    spent = 0.0
    for _ in range(MOST_CHUNKS):
        if spent >= SETTLING:
            break
        spent += sum(backend.times(benchmark, CHUNK))
    return median(backend.times(benchmark, LAUNCHES))


def _copy_rate(backend: Backend, *, to_device: bool) -> float:
    backend.copy_times(COPY_BYTES, to_device=to_device, launches=WARM_UPS)
    return COPY_BYTES / median(backend.copy_times(COPY_BYTES, to_device=to_device, launches=LAUNCHES))


def measured_device(
    measured: DeviceMeasurement, like: str, *, processor: bool = False
) -> tuple[DeviceFit, dict[str, Any]]:
    """The device of the catalog that is called ``like``, fitted to what was found, and its file as data.

    A ``processor`` has no data sheet of matrix rates: what its best kernels reach stands for its peaks, so
    that shares are of those.
    """
    rows = [_renamed(row, like) for row in measured.rows]
    source = f"measured with {measured.software}, median of {LAUNCHES} launches"
    own = _processor(measured, source) if processor else {}
    fit = fit_device(rows, like, validate_data({"use": like, **own}, DeviceSpec).build())
    data = {"title": measured.device, **device_data(fit), **own}
    data["launch"] = _figure(f"{measured.launch * 1e6:.3g} us", source)
    data["dispatch"] = _figure(f"{measured.dispatch * 1e6:.3g} us", source)
    return fit, data


def _processor(measured: DeviceMeasurement, source: str) -> dict[str, Any]:
    """Cores, peaks and bandwidth of a processor: its best kernels over the share that good ones reach."""
    flops, moved = best_rates(measured.rows)
    peaks = {name: _figure(f"{rate / BEST_SHARE / 1e12:.3g} TFLOP/s", source) for name, rate in flops.items()}
    return {
        "cores": _figure(measured.cores, source),
        "peak": peaks,
        "memory_bandwidth": _figure(f"{moved / BEST_SHARE / 1e9:.4g} GB/s", source),
    }


def best_rates(rows: Iterable[MeasuredKernel]) -> tuple[dict[str, float], float]:
    """The best FLOP/s by format, and the best bytes/s, of all rows: what a processor has for a data sheet."""
    flops: dict[str, float] = {}
    moved = 0.0
    for row in rows:
        task = kernel_task(row)
        if row.operation == "gemm":
            rate = sum(work.flops for work in task.works) / row.seconds
            flops[row.words["dtype"]] = max(rate, flops.get(row.words["dtype"], 0.0))
        elif row.operation == "elementwise":
            moved = max(moved, sum(work.bytes_moved for work in task.works) / row.seconds)
    return flops, moved


def _renamed(row: MeasuredKernel, device: str) -> MeasuredKernel:
    return MeasuredKernel(row.line, {**row.words, "device": device}, row.counts, row.seconds)


def _figure(value: Any, source: str) -> dict[str, Any]:
    return {"value": value, "source": source, "provenance": "measured"}
