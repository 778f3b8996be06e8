"""What is fitted together: rows of some kernels, and the parameters that they can show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from simcluster.accuracy import KernelTask, MeasuredKernel
from simcluster.calibration.parameter import (
    BACKWARD,
    BURST,
    CAUSAL,
    GEMM_START,
    GROUP_ROWS,
    GROUPED,
    INPUT_GRADIENT,
    RAMP,
    SUSTAINED,
    TRAFFIC,
    WEIGHT_GRADIENT,
    Parameter,
    attention_share,
    format_share,
    half_bytes,
    half_length,
    stream_share,
)
from simcluster.cluster import Device
from simcluster.deferred_dataclass import dataclass
from simcluster.work import DType, GemmLayout, Kernel


@dataclass(frozen=True, slots=True)
class MeasuredTask:
    """A row, what it measured, and how much it counts."""

    row: MeasuredKernel
    task: KernelTask
    weight: float


BEST_OF_SEARCHES = ("mamf", "aiter")
"""Publishers of the best shapes of a search: upper ends, which count less."""

HALF = (DType.BF16, DType.FP16)
SINGLE_PASS = ("unary", "binary", "quantise")
"""Memory-bound operators that are one pass in every implementation: they show the device's own rate."""

SMALL_FLOPS, SMALL_BYTES = 1e9, 2**24
SMALL_WEIGHT, SEARCH_WEIGHT = 0.3, 0.2
"""Small kernels measure launch and timer more than the device."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Kernels that are fitted together.

    ``takes`` says which rows show them, ``parameters`` which figures these can show on a device; ``forms``
    gives the device in the forms of which the best is taken.
    """

    name: str
    takes: Callable[[MeasuredTask], bool]
    parameters: Callable[[Device, Sequence[MeasuredTask]], list[Parameter]]
    forms: Callable[[Device, Sequence[MeasuredTask]], list[Device]] = lambda device, rows: [device]


def weight_of(row: MeasuredKernel, task: KernelTask) -> float:
    """How much a row counts."""
    weight = SEARCH_WEIGHT if row.group in BEST_OF_SEARCHES else 1.0
    flops = sum(work.flops for work in task.works)
    moved = sum(work.bytes_moved for work in task.works)
    small = flops < SMALL_FLOPS if flops else moved < SMALL_BYTES
    if row.operation == "other":
        weight /= 2  # forward and backward timed together: each of them is shown half
    return weight * (SMALL_WEIGHT if small else 1.0)


def _is_matmul(measured: MeasuredTask) -> bool:
    return measured.row.operation == "gemm" and measured.task.works[-1].dtype in HALF


def _matmul(device: Device, rows: Sequence[MeasuredTask]) -> list[Parameter]:
    both = {measured.task.burst for measured in rows} == {True, False}
    layouts = {dict(measured.task.works[-1].sizes).get("layout", 0) for measured in rows}
    parameters = [SUSTAINED, TRAFFIC, RAMP, stream_share(Kernel.COPY)]
    parameters += [GEMM_START] if device.gemm.start else []
    parameters += [BURST] if both else []
    parameters += [INPUT_GRADIENT] if GemmLayout.INPUT_GRADIENT in layouts else []
    return parameters + ([WEIGHT_GRADIENT] if GemmLayout.WEIGHT_GRADIENT in layouts else [])


def _in_format(dtype: DType) -> Stage:
    """Matmuls in a format that has a share of its own; passes that come with them are as they are known."""

    def takes(measured: MeasuredTask) -> bool:
        return measured.row.operation == "gemm" and measured.task.works[-1].dtype is dtype

    return Stage(f"matmuls in {dtype}", takes, lambda device, rows: [format_share(dtype)])


def _is_grouped(measured: MeasuredTask) -> bool:
    """Those of matmul libraries, which training runs: no MLPs in one kernel, no loops of the host."""
    return (
        measured.row.operation == "grouped_gemm"
        and not measured.task.operator
        and not measured.task.passes
        and any(work.dtype in HALF and work.kernel is Kernel.GEMM for work in measured.task.works)
    )


def _is_attention(measured: MeasuredTask) -> bool:
    """Kernels that frameworks run: no earlier releases, no tutorials, no single heads written by hand,
    nothing that is made of matmuls.
    """
    row = measured.row
    if any(work.kernel is not Kernel.ATTENTION for work in measured.task.works):
        return False
    current = not any(dict(work.sizes).get("release") for work in measured.task.works)
    return (
        row.operation in ("attention_fwd", "attention_bwd", "other")
        and (current or ("A100" in row.hardware and "[FlashAttention-2]" in row.words["op"]))
        and not any(word in row.words["op"] for word in ("Triton tutorial", "PTO JIT"))
        and measured.task.works[-1].dtype in HALF
    )


def _attention(device: Device, rows: Sequence[MeasuredTask]) -> list[Parameter]:
    dims = tuple(dim for dim, _ in device.attention.forward)
    seen = [dim for dim in dims if any(_near(measured, dim, dims) for measured in rows)]
    parameters = [*map(attention_share, seen), half_length(dims)]
    sizes = [dict(work.sizes) for measured in rows for work in measured.task.works]
    parameters += [CAUSAL] if {size["causal"] for size in sizes} == {0, 1} else []
    return parameters + ([BACKWARD] if any(size["backward"] for size in sizes) else [])


def _near(measured: MeasuredTask, dim: int, dims: Sequence[int]) -> bool:
    """Whether a row's head dim is this one, or lies between this one and its neighbour."""
    place = list(dims).index(dim)
    low = dims[place - 1] if place else 0
    high = dims[place + 1] if place + 1 < len(dims) else 10**6
    return any(low < dict(work.sizes)["d"] < high for work in measured.task.works)


def _attention_forms(device: Device, rows: Sequence[MeasuredTask]) -> list[Device]:
    backward = any(dict(work.sizes)["backward"] for measured in rows for work in measured.task.works)
    return [
        replace(device, attention=replace(device.attention, tile=tile, backward_tile=keys))
        for tile in (64, 128, 256)
        for keys in ((64, 128) if backward else (device.attention.backward_tile,))
    ]


def _is_single_pass(measured: MeasuredTask) -> bool:
    if measured.task.operator not in SINGLE_PASS or "FLAG" in measured.row.notes:
        return False
    # What fits a cache does not show the memory.
    return measured.task.works[-1].bytes_moved >= 4 * SMALL_BYTES


STAGES = (
    Stage(
        "single passes over memory",
        _is_single_pass,
        lambda device, rows: [stream_share(Kernel.ELEMENTWISE), half_bytes(Kernel.ELEMENTWISE)],
    ),
    Stage("matmuls in bf16 and fp16", _is_matmul, _matmul),
    *map(_in_format, (DType.FP32, DType.FP8, DType.NVFP4, DType.INT8)),
    Stage("grouped matmuls", _is_grouped, lambda device, rows: [GROUPED, GROUP_ROWS]),
    Stage("attention", _is_attention, _attention, _attention_forms),
)
"""In the order in which they are fitted: matmuls of few rows wait for memory, grouped ones are matmuls."""
