"""What a kernel has to do, in the terms that devices price: dtypes and work records.

An operator says which kernels it launches and on what sizes; only a device knows how long they take.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class DType(enum.Enum):
    """An element type: its name, bytes per element and the NumPy type that stands for it in values."""

    FP64 = ("fp64", 8)
    FP32 = ("fp32", 4)
    TF32 = ("tf32", 4)
    FP16 = ("fp16", 2)
    BF16 = ("bf16", 2)
    FP8 = ("fp8", 1)
    INT64 = ("int64", 8)
    INT32 = ("int32", 4)
    UINT8 = ("uint8", 1)

    def __init__(self, label: str, itemsize: int) -> None:
        self.label = label
        self.itemsize = itemsize

    @property
    def is_float(self) -> bool:
        """True for the types that hold activations, weights and gradients."""
        return self in _FLOATS

    @classmethod
    def of(cls, label: str) -> DType:
        """The type called ``label``, such as ``bf16``."""
        return _BY_LABEL[label]

    def __str__(self) -> str:
        return self.label


_FLOATS = frozenset({DType.FP64, DType.FP32, DType.TF32, DType.FP16, DType.BF16, DType.FP8})
_BY_LABEL = {dtype.label: dtype for dtype in DType}


class Kernel(enum.StrEnum):
    """The closed set of kernels a device can price (DESIGN 4.1)."""

    GEMM = "gemm"
    ATTENTION = "attention"
    CONV = "conv"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    GATHER_SCATTER = "gather_scatter"
    OPTIMIZER = "optimizer"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class Work:
    """One kernel launch on local shapes.

    ``sizes`` are named: gemm ``b, m, n, k``; attention ``b, h, sq, skv, d, causal, backward``; the
    memory-bound kernels need none. ``flops`` counts a fused multiply-add as two; ``bytes_read`` and
    ``bytes_written`` are the least traffic to device memory.
    """

    kernel: Kernel
    dtype: DType
    flops: int
    bytes_read: int
    bytes_written: int
    sizes: tuple[tuple[str, int], ...] = ()

    @property
    def bytes_moved(self) -> int:
        """Bytes read plus bytes written."""
        return self.bytes_read + self.bytes_written

    def size(self, name: str) -> int:
        """The size called ``name``; KeyError if this kernel has none of that name."""
        return dict(self.sizes)[name]
