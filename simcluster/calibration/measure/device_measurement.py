"""Measuring a device: warm-ups, medians, and a device file from what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median, quantiles
from typing import Any

from simcluster.accuracy import KernelPrediction, MeasuredKernel, kernel_task, task_seconds
from simcluster.calibration.device_file import device_data
from simcluster.calibration.fit import DeviceFit, fit_device
from simcluster.calibration.measure.backend import Backend
from simcluster.calibration.measure.benchmark import Benchmark, benchmarks
from simcluster.calibration.measure.device_collective import DeviceCollective, collective_benchmarks
from simcluster.cluster import Device, DeviceSpec
from simcluster.deferred_dataclass import dataclass
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
    to_device: float | None
    """Bytes/s of a copy from the host; None where the device's memory is the host's."""
    from_device: float | None
    """Bytes/s of a copy to the host."""
    num_devices: int
    """Devices of the host."""
    memory: int
    """Bytes of a device's memory."""
    spread: float
    """How far launches of a kernel lie from each other: the middle half of them, of the median kernel or
    collective, whichever is wider."""
    collectives: tuple[tuple[DeviceCollective, float | None], ...] = ()
    """Seconds of collectives; None of those that the library does not have."""


def measure(
    backend: Backend, *, small: bool = False, step: Callable[[str, int, int], None] | None = None
) -> DeviceMeasurement:
    """All benchmarks on a device; ``step(name, done, all)`` is told before each, for a progress bar."""
    asked = benchmarks(backend.dtypes, small=small)
    exchanged = collective_benchmarks(backend.num_devices, small=small)
    total = len(asked) + 2 + bool(exchanged)
    tell = step or (lambda name, done, all_of_them: None)
    rows, spreads = [], []
    for number, benchmark in enumerate(asked):
        tell(benchmark.name, number, total)
        timed = sustained_launches if benchmark.sustained else short_launches
        launches = timed(backend, benchmark)
        rows.append(benchmark.row(number, backend.device, median(launches), backend.software))
        spreads.append(_spread(launches))
    tell("copies", len(asked), total)
    copies = [_copy_rate(backend, to_device=to_device) for to_device in (True, False)]
    tell("operators", len(asked) + 1, total)
    backend.dispatch_times(WARM_UPS)
    dispatch = median(backend.dispatch_times(10 * LAUNCHES))
    launch = median(short_launches(backend, TINY))
    if exchanged:
        tell("collectives", len(asked) + 2, total)
    times = backend.collective_times(exchanged, LAUNCHES) if exchanged else []
    exchanges = [launches for launches in times if launches]
    return DeviceMeasurement(
        device=backend.device,
        software=backend.software,
        cores=backend.cores,
        rows=tuple(rows),
        launch=launch,
        dispatch=dispatch,
        to_device=copies[0],
        from_device=copies[1],
        num_devices=backend.num_devices,
        memory=backend.memory,
        spread=max(median(spreads), median(map(_spread, exchanges)) if exchanges else 0.0),
        collectives=tuple(
            (benchmark, median(launches) if launches else None)
            for benchmark, launches in zip(exchanged, times, strict=True)
        ),
    )


def _spread(launches: Sequence[float]) -> float:
    low, middle, high = quantiles(launches, n=4)
    return (high - low) / middle


def short_launches(backend: Backend, benchmark: Benchmark) -> list[float]:
    """Seconds of a few launches, after warm-ups, on a device that they do not heat."""
    backend.times(benchmark, WARM_UPS)
    return backend.times(benchmark, LAUNCHES)


def sustained_launches(backend: Backend, benchmark: Benchmark) -> list[float]:
    """Seconds of launches after a loop long enough for the clock to settle."""
    spent = 0.0
    for _ in range(MOST_CHUNKS):
        if spent >= SETTLING:
            break
        spent += sum(backend.times(benchmark, CHUNK))
    return backend.times(benchmark, LAUNCHES)


def _copy_rate(backend: Backend, *, to_device: bool) -> float | None:
    backend.copy_times(COPY_BYTES, to_device=to_device, launches=WARM_UPS)
    launches = backend.copy_times(COPY_BYTES, to_device=to_device, launches=LAUNCHES)
    return COPY_BYTES / median(launches) if launches else None


def measured_device(
    measured: DeviceMeasurement, like: str, *, processor: bool = False
) -> tuple[DeviceFit, dict[str, Any]]:
    """The device of the catalog that is called ``like``, fitted to what was found, and its file as data.

    A ``processor`` has no data sheet of matrix rates: what its best kernels reach stands for its peaks, so
    that shares are of those.
    """
    rows = [_renamed(row, like) for row in measured.rows]
    source = measured_by(measured)
    own = _processor(measured, source) if processor else {}
    own["launch"] = measured_figure(f"{measured.launch * 1e6:.3g} us", source)
    own["dispatch"] = measured_figure(f"{measured.dispatch * 1e6:.3g} us", source)
    if processor:  # it launches its own operators: what is left is their work
        own["launch"], own["dispatch"] = own["dispatch"], measured_figure("0 s", "contained in the launch")
    fit = fit_device(rows, like, validate_data({"use": like, **own}, DeviceSpec).build())
    return fit, {"title": measured.device, **device_data(fit), **own}


def measured_errors(measured: DeviceMeasurement, device: Device) -> list[KernelPrediction]:
    """Every kernel beside what the fitted ``device`` says of it, memory-bound ones as PyTorch runs them."""
    predictions = []
    for row in measured.rows:
        task = kernel_task(row)
        seconds = task_seconds(task, device.in_burst() if task.burst else device)
        predictions.append(KernelPrediction(row, device.name, measured=row.seconds, predicted=seconds))
    return predictions


def measured_by(measured: DeviceMeasurement) -> str:
    """Where the figures of its files come from."""
    return f"measured with {measured.software}, median of {LAUNCHES} launches"


def measured_figure(value: Any, source: str) -> dict[str, Any]:
    """A figure of a catalog file that was measured."""
    return {"value": value, "source": source, "provenance": "measured"}


def _processor(measured: DeviceMeasurement, source: str) -> dict[str, Any]:
    """Cores, rates and memory of a processor: its best kernels over the share that good ones reach."""
    flops, moved = best_rates(measured.rows)
    peaks = {name: measured_figure(_compute(rate), source) for name, rate in flops.items()}
    half = {"value": _compute(flops["fp32"] / 2), "source": "half of fp32", "provenance": "assumed"}
    usual = "a processor multiplies matrices with its vector units"
    return {
        "cores": measured_figure(measured.cores, source),
        "clock": None,
        "peak": {"fp64": half, **peaks},
        "vector": {
            "fp64": half,
            **{
                name: {"value": _compute(flops["fp32"]), "source": usual, "provenance": "assumed"}
                for name in flops
            },
        },
        "memory": measured_figure(f"{measured.memory / 2**30:.4g} GiB", "its share of the host's memory"),
        "reserved": {
            "value": f"{measured.memory / 16 / 2**30:.3g} GiB",
            "source": "operating system and page cache: a sixteenth",
            "provenance": "assumed",
        },
        "memory_bandwidth": measured_figure(f"{moved / BEST_SHARE / 1e9:.4g} GB/s", source),
    }


def _compute(rate: float) -> str:
    return f"{rate / BEST_SHARE / 1e12:.3g} TFLOP/s"


def best_rates(rows: Iterable[MeasuredKernel]) -> tuple[dict[str, float], float]:
    """In place of a processor's data sheet: the best FLOP/s by format, bytes/s of the largest additions."""
    flops: dict[str, float] = {}
    moved = largest = 0.0
    for row in rows:
        task = kernel_task(row)
        if row.operation == "gemm":
            rate = sum(work.flops for work in task.works) / row.seconds
            flops[row.words["dtype"]] = max(rate, flops.get(row.words["dtype"], 0.0))
        elif row.operation == "elementwise":  # the largest: smaller ones fit caches
            size = sum(work.bytes_moved for work in task.works)
            if size >= largest:
                largest, moved = size, max(size / row.seconds, moved if size == largest else 0.0)
    return flops, moved


def _renamed(row: MeasuredKernel, device: str) -> MeasuredKernel:
    return MeasuredKernel(row.line, {**row.words, "device": device}, row.counts, row.seconds)
