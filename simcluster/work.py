"""What a kernel has to do, in the terms that devices price: dtypes and work records.

An operator says which kernels it launches and on what sizes; only a device knows how long they take.
"""

from __future__ import annotations

import enum

from simcluster.deferred_dataclass import dataclass


class DType(enum.Enum):
    """An element type: its name, bits per element, how many elements share a scale (0: none), and its bytes.

    ``tf32`` is fp32 in memory; only matrix kernels know it, by their rate. ``int8`` is quantised block-wise,
    2,048 elements to an fp32 scale, as 8-bit optimizers keep their states (arXiv 2110.02861). ``fp8`` has one
    scale per tensor, which is not counted. ``nvfp4`` has an fp8 scale for 16 elements, ``mxfp4`` and
    ``mxfp8`` an exponent of a byte for 32 (Open Compute Project, MX formats 1.0); a scale of a whole tensor
    is not counted.
    """

    FP64 = ("fp64", 64)
    FP32 = ("fp32", 32)
    TF32 = ("tf32", 32)
    FP16 = ("fp16", 16)
    BF16 = ("bf16", 16)
    FP8 = ("fp8", 8)
    MXFP8 = ("mxfp8", 8, 32, 1)
    NVFP4 = ("nvfp4", 4, 16, 1)
    MXFP4 = ("mxfp4", 4, 32, 1)
    INT8 = ("int8", 8, 2048, 4)
    INT64 = ("int64", 64)
    INT32 = ("int32", 32)
    UINT8 = ("uint8", 8)

    def __init__(self, label: str, bits: int, block: int = 0, scale_bytes: int = 0) -> None:
        self.label = label
        self.bits = bits
        self.itemsize = -(-bits // 8)  # of one element by itself
        self.block = block
        self.scale_bytes = scale_bytes

    def num_bytes(self, num_elements: int) -> int:
        """Bytes of so many elements, scales included; the last block may be a short one."""
        scales = -(-num_elements // self.block) if self.block else 0
        return -(-num_elements * self.bits // 8) + scales * self.scale_bytes

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


_FLOATS = frozenset(
    {
        DType.FP64,
        DType.FP32,
        DType.TF32,
        DType.FP16,
        DType.BF16,
        DType.FP8,
        DType.MXFP8,
        DType.NVFP4,
        DType.MXFP4,
    }
)
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

TRITON_RELEASE = 100
"""What stands for Triton's copy of FlashAttention where releases of attention kernels have numbers: 1 is
FlashAttention (arXiv 2205.14135), 2 is FlashAttention-2 (arXiv 2307.08691). FlashAttention has no release of
this number."""


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
