"""What errors of kernels are put together by."""

from __future__ import annotations

import enum

from simcluster.accuracy.kernels.predict import KernelPrediction
from simcluster.accuracy.kernels.works import kernel_task

_GIGA, _MEBI = 1e9, 2**20


class KernelGrouping(enum.StrEnum):
    """What the rows of one line of the table have in common."""

    KERNEL = "kernel"
    DEVICE = "device"
    DTYPE = "dtype"
    SIZE = "size"
    SOURCE = "source"
    OP = "op"

    def of(self, prediction: KernelPrediction) -> str:
        """The group of a row."""
        row = prediction.row
        match self:
            case KernelGrouping.KERNEL:
                return row.operation
            case KernelGrouping.DEVICE:
                return row.hardware
            case KernelGrouping.DTYPE:
                return row.words["dtype"]
            case KernelGrouping.SOURCE:
                return f"{row.group} ({prediction.how})"
            case KernelGrouping.OP:
                return row.words["op"]
            case KernelGrouping.SIZE:
                return _size(prediction)


def _size(prediction: KernelPrediction) -> str:
    """The class of size: matmuls by FLOPs, what memory bounds by bytes, the rest by kind alone."""
    row = prediction.row
    works = kernel_task(row).works
    if row.operation == "gemm":
        flops = sum(work.flops for work in works)
        return f"{row.operation} {_class(flops / _GIGA, (1, 10), 'GFLOP')}"
    if row.operation in ("grouped_gemm", "attention_fwd", "attention_bwd", "attention_decode", "other"):
        return row.operation
    moved = sum(work.bytes_moved for work in works)
    return f"memory-bound {_class(moved / _MEBI, (4, 64), 'MiB')}"


def _class(size: float, bounds: tuple[float, float], unit: str) -> str:
    low, high = bounds
    if size < low:
        return f"below {low:g} {unit}"
    return f"from {high:g} {unit}" if size >= high else f"{low:g} to {high:g} {unit}"
