"""What measured kernels are made of: formats, matmuls, MLPs of experts, and the task that these make."""

from __future__ import annotations

from simcluster.accuracy.kernels.library_passes import LibraryPass
from simcluster.accuracy.kernels.row import MeasuredKernel
from simcluster.cluster import Direction
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.work import DType, GemmLayout, Kernel, Work

DTYPES = {
    **{dtype.label: dtype for dtype in DType if dtype.is_float},
    "int8": DType.INT8,
    "fp16/bf16": DType.BF16,
    "fp8_block128": DType.FP8,
}
"""Formats by their names in the files; scales of 128 elements each are priced as fp8."""

DIRECTIONS: dict[str, tuple[Direction, ...]] = {
    "fwd": ("forward",),
    "bwd": ("backward",),
    "full": ("forward", "backward"),
}
"""Directions by their names in the files."""

_FP32_OUT = "out_dtype=fp32"
_ACCUMULATES = "accumulate=True"


@dataclass(frozen=True, slots=True)
class KernelTask:
    """What a row measured: kernels one after another, on a warm device or, if ``burst``, in a short run.

    ``operator`` is what they are where it depends on the ``implementation`` how often they pass over memory,
    and ``directions`` says of each whether it is backward. ``passes`` are those over memory that a library
    makes beside matmuls.
    """

    works: tuple[Work, ...]
    burst: bool = False
    operator: str = ""
    implementation: str = ""
    directions: tuple[Direction, ...] = ()
    passes: tuple[LibraryPass, ...] = ()


_FORMATS = {
    **dict.fromkeys(("bfloat16", "amp"), "bf16"),
    **dict.fromkeys(("float16", "half"), "fp16"),
    **dict.fromkeys(("float32", "float"), "fp32"),
    **dict.fromkeys(
        ("fp8", "float8", "fp8_e4m3", "fp8_e5m2", "e4m3", "mxfp8", "fp8_row", "fp8_rowwise", "fp8_tensor"),
        "fp8",
    ),
    **dict.fromkeys(("w8a8", "w8a8_int8"), "int8"),
}
"""Formats by other names."""


def dtype_of(row: MeasuredKernel, otherwise: str | None = None) -> DType:
    """The format of a row, or ``otherwise`` if it states none; PlanError if no device has a rate for it."""
    name = row.words["dtype"]
    if name == "not stated" and otherwise:
        name = otherwise
    name = _FORMATS.get(name.partition("(")[0].strip().lower(), name)
    if name not in DTYPES:
        raise PlanError(f"no device has a rate for {name}")
    return DTYPES[name]


def stated(row: MeasuredKernel, *names: str) -> list[int]:
    """The counts of these columns; PlanError if one is missing."""
    for name in names:
        if name not in row.counts:
            raise PlanError(f"{name} is not stated")
    return [row.counts[name] for name in names]


def gemm_work(
    dtype: DType,
    b: int,
    m: int,
    n: int,
    k: int,
    layout: GemmLayout = GemmLayout.FORWARD,
    notes: str = "",
    *,
    grouped: bool = False,
) -> Work:
    """A matmul that writes what its notes say: fp32, or what activations are in."""
    written = b * m * n * (4 if _FP32_OUT in notes or dtype is DType.FP32 else 2)
    read = dtype.num_bytes(b * m * k) + dtype.num_bytes(b * k * n)
    read += written if _ACCUMULATES in notes else 0
    sizes: list[tuple[str, int]] = [("b", b), ("m", m), ("n", n), ("k", k)]
    if layout:
        sizes.append(("layout", int(layout)))
    if grouped:
        sizes.append(("grouped", 1))
    return Work(Kernel.GEMM, dtype, 2 * b * m * n * k, read, written, tuple(sizes))


def expert_mlp(
    dtype: DType, groups: int, rows: int, hidden: int, ffn: int, *, backward: bool
) -> tuple[Work, ...]:
    """A gated MLP of experts with its permutations: gate and up side by side, their product, down."""
    tokens = 2 * groups * rows * hidden
    gate = 2 * groups * rows * ffn
    moved = Work(Kernel.GATHER_SCATTER, DType.BF16, 0, tokens, tokens)
    up, down = (rows, 2 * ffn, hidden), (rows, hidden, ffn)
    if not backward:
        between = Work(Kernel.ELEMENTWISE, DType.BF16, 0, 2 * gate, gate)
        products = [gemm_work(dtype, groups, *sizes, grouped=True) for sizes in (up, down)]
        return (moved, products[0], between, products[1], moved)
    between = Work(Kernel.ELEMENTWISE, DType.BF16, 0, 3 * gate, 2 * gate)
    products = []
    for m, n, k in (down, up):
        products += [
            gemm_work(dtype, groups, m, k, n, GemmLayout.INPUT_GRADIENT, grouped=True),
            gemm_work(dtype, groups, n, k, m, GemmLayout.WEIGHT_GRADIENT, grouped=True),
        ]
    return (moved, *products[:2], between, *products[2:], moved)
