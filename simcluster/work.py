"""What a kernel has to do, in the terms that devices price: dtypes and work records.

An operator says which kernels it launches and on what sizes; only a device knows how long they take.
"""

from __future__ import annotations

import enum

from simcluster.deferred_dataclass import dataclass

SCALE_BYTES = 4
"""Bytes of the fp32 scale that a block of quantised elements shares."""


class DType(enum.Enum):
    """An element type: its name, bytes per element, and how many elements share one fp32 scale (0: none).

    ``tf32`` is fp32 in memory; only matrix kernels know it, by their rate. ``int8`` is quantised block-wise,
    2,048 elements to a scale, as 8-bit optimizers keep their states (arXiv 2110.02861). ``fp8`` has one scale
    per tensor, which is not counted.
    """

    FP64 = ("fp64", 8)
    FP32 = ("fp32", 4)
    TF32 = ("tf32", 4)
    FP16 = ("fp16", 2)
    BF16 = ("bf16", 2)
    FP8 = ("fp8", 1)
    INT8 = ("int8", 1, 2048)
    INT64 = ("int64", 8)
    INT32 = ("int32", 4)
    UINT8 = ("uint8", 1)

    def __init__(self, label: str, itemsize: int, block: int = 0) -> None:
        self.label = label
        self.itemsize = itemsize
        self.block = block

    def num_bytes(self, num_elements: int) -> int:
        """Bytes of so many elements, scales included; the last block may be a short one."""
        scales = -(-num_elements // self.block) if self.block else 0
        return num_elements * self.itemsize + scales * SCALE_BYTES

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


class GemmLayout(enum.IntEnum):
    """How a matmul's operands lie in memory, by what it computes: BLAS's names for it in training."""

    FORWARD = 0
    """TN: both operands contiguous in k."""
    INPUT_GRADIENT = 1
    """NN: the right operand is contiguous in n."""
    WEIGHT_GRADIENT = 2
    """NT: both operands are contiguous in what is not summed over."""


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


MATRIX_KERNELS = (Kernel.GEMM, Kernel.ATTENTION, Kernel.CONV)
"""The kernels of matrix units."""


@dataclass(frozen=True, slots=True)
class Work:
    """One kernel launch on local shapes.

    ``sizes`` are named: gemm ``b, m, n, k``, ``layout`` (a ``GemmLayout``) where it is no forward one, and
    ``grouped`` 1 where the products are those of groups of rows; attention ``b, h, sq, skv, d, causal,
    backward``, ``dv``
    where heads of values have another size, and ``release`` where it is not the best kernel there is; the
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
