"""The kernels of the simulator that a row measured: what a device prices."""

from __future__ import annotations

from simcluster.accuracy.kernels.memory_operator import MemoryOperator, operator_of
from simcluster.accuracy.kernels.row import MeasuredKernel
from simcluster.cluster import Direction
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.work import DType, GemmLayout, Kernel, Work

DTYPES = {
    **{dtype.label: dtype for dtype in DType if dtype.is_float},
    "fp16/bf16": DType.BF16,
    "fp8_block128": DType.FP8,
}
"""Formats by their names in the files; scales of 128 elements each are priced as fp8."""

LAYOUTS = {
    "": GemmLayout.FORWARD,
    "TN": GemmLayout.FORWARD,
    "NN": GemmLayout.INPUT_GRADIENT,
    "NT": GemmLayout.WEIGHT_GRADIENT,
}
"""Layouts by TransformerEngine's names."""

RELEASES = {"[FlashAttention-2]": 2, "FlashAttention-2": 2, "FA2": 2, "[FlashAttention]": 1}
"""Earlier kernels of attention, by how the name of a row ends."""

DIRECTIONS: dict[str, tuple[Direction, ...]] = {
    "fwd": ("forward",),
    "bwd": ("backward",),
    "full": ("forward", "backward"),
}
"""Directions by their names in the files."""

EXPERT_MLPS = {
    "moe (fused expert MLP)": "vllm",
    "fused_moe [liger]": "liger",
    "fused MoE MLP": "aiter",
}
"""Whole expert MLPs in kernels of their own, not those of matmul libraries that training runs."""

_BURST = "near boost clock"
_QUANTISES = "may include quantising"
_BOTH = "(2x FLOPs)"
_FP32_OUT = "out_dtype=fp32"
_ACCUMULATES = "accumulate=True"


@dataclass(frozen=True, slots=True)
class KernelTask:
    """What a row measured: kernels one after another, on a warm device or, if ``burst``, in a short run.

    ``operator`` is what they are where it depends on the ``implementation`` how often they pass over memory,
    and ``directions`` says of each whether it is backward.
    """

    works: tuple[Work, ...]
    burst: bool = False
    operator: str = ""
    implementation: str = ""
    directions: tuple[Direction, ...] = ()


def kernel_task(row: MeasuredKernel) -> KernelTask:
    """What a row measured; PlanError, with the reason, if it is nothing that a device file prices."""
    burst = _BURST in row.notes
    if row.operation == "gemm":
        return KernelTask((*_quantised(row), *_gemms(row)), burst)
    if row.operation == "grouped_gemm":
        works = _grouped(row)
        library = EXPERT_MLPS.get(row.words["op"])
        if library is None:
            return KernelTask(works, burst)
        (direction,) = DIRECTIONS[row.words["direction"]]
        return KernelTask(works, burst, "expert_mlp", library, (direction,) * len(works))
    if row.operation in ("attention_fwd", "attention_bwd", "attention_decode"):
        return KernelTask((_attention(row, backward=row.operation == "attention_bwd"),), burst)
    if row.operation == "other" and "attention fwd+bwd" in row.words["op"]:
        return KernelTask(tuple(_attention(row, backward=backward) for backward in (False, True)), burst)
    known = operator_of(row.words["op"], row.group)
    if known is None:
        raise PlanError(f"it is not known what '{row.words['op']}' reads and writes")
    directions = DIRECTIONS.get(row.words["direction"])
    if directions is None:
        raise PlanError(f"direction '{row.words['direction']}' is none of {', '.join(DIRECTIONS)}")
    works = tuple(_stream(row, known, direction) for direction in directions)
    return KernelTask(works, burst, known.operator, known.implementation, directions)


def _dtype(row: MeasuredKernel, otherwise: str | None = None) -> DType:
    name = row.words["dtype"]
    if name == "not stated" and otherwise:
        name = otherwise
    if name not in DTYPES:
        raise PlanError(f"no device has a rate for {name}")
    return DTYPES[name]


def _stated(row: MeasuredKernel, *names: str) -> list[int]:
    for name in names:
        if name not in row.counts:
            raise PlanError(f"{name} is not stated")
    return [row.counts[name] for name in names]


def _gemms(row: MeasuredKernel) -> tuple[Work, ...]:
    """A matmul, or the two of its gradients where the row times both."""
    m, n, k = _stated(row, "m", "n", "k")
    b, dtype = row.count("batch"), _dtype(row)
    if _BOTH in row.notes:
        return (
            gemm_work(dtype, b, m, k, n, GemmLayout.INPUT_GRADIENT),
            gemm_work(dtype, b, k, n, m, GemmLayout.WEIGHT_GRADIENT),
        )
    return (gemm_work(dtype, b, m, n, k, _layout(row), row.notes),)


def _quantised(row: MeasuredKernel) -> tuple[Work, ...]:
    """The pass that makes the left operand narrow, where the time may include it."""
    if _QUANTISES not in row.notes:
        return ()
    elements = row.count("batch") * row.count("m") * row.count("k")
    return (Work(Kernel.ELEMENTWISE, DType.BF16, 0, 2 * elements, elements),)


def _layout(row: MeasuredKernel) -> GemmLayout:
    return LAYOUTS.get(row.words["layout"], GemmLayout.FORWARD)


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
    read = b * (m * k + k * n) * dtype.itemsize + (written if _ACCUMULATES in notes else 0)
    sizes: list[tuple[str, int]] = [("b", b), ("m", m), ("n", n), ("k", k)]
    if layout:
        sizes.append(("layout", int(layout)))
    if grouped:
        sizes.append(("grouped", 1))
    return Work(Kernel.GEMM, dtype, 2 * b * m * n * k, read, written, tuple(sizes))


def _grouped(row: MeasuredKernel) -> tuple[Work, ...]:
    groups, m, n, k = _stated(row, "batch", "m", "n", "k")
    dtype, op = _dtype(row), row.words["op"]
    if "[huggingface]" in op:
        raise PlanError("a loop of the host over experts, which no device file times")
    if not any(word in op for word in ("MLP", "moe")):
        return (gemm_work(dtype, groups, m, n, k, _layout(row), row.notes, grouped=True),)
    gradients = row.words["direction"] == "bwd"
    return _expert_mlp(dtype, groups, m, k, n, backward=gradients)


def _expert_mlp(
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


def _attention(row: MeasuredKernel, *, backward: bool) -> Work:
    op = row.words["op"]
    if "unfused" in op:
        raise PlanError("unfused attention is a chain of kernels whose passes the row does not state")
    batch, heads, size, queries, keys = _stated(row, "batch", "heads", "head_dim", "seq_q", "seq_kv")
    dtype, causal = _dtype(row), row.words["causal"] == "true" and queries > 1
    kv_heads = row.count("kv_heads", heads)
    values = _value_size(row.notes, size)
    # With a mask, queries are the last ones: they see all keys before them.
    before = keys - queries if causal else 0
    pairs = queries * queries + 2 * queries * before if causal else 2 * queries * keys
    products = 3 * size + 2 * values if backward else size + values
    query, key = batch * queries * heads, batch * keys * kv_heads
    read = (query * size + key * (size + values)) * dtype.itemsize
    written = query * values * 2
    if backward:
        read, written = read + 2 * query * values * dtype.itemsize, read
    release = next((number for end, number in RELEASES.items() if op.endswith(end)), 0)
    sizes = {"b": batch, "h": heads, "sq": queries, "skv": keys, "d": size}
    sizes |= {"dv": values} if values != size else {}
    sizes |= {"causal": int(causal), **({"before": before} if before else {}), "backward": int(backward)}
    sizes |= {"release": release} if release else {}
    return Work(
        Kernel.ATTENTION, dtype, products * batch * heads * pairs, read, written, tuple(sizes.items())
    )


def _value_size(notes: str, size: int) -> int:
    """The size of a head's values, where the notes give one that is not that of its keys."""
    rest = notes.partition("v_head_dim=")[2]
    digits = rest.split(";")[0].split(",")[0].strip()
    return int(digits) if digits.isdecimal() else size


def _stream(row: MeasuredKernel, known: MemoryOperator, direction: Direction) -> Work:
    elements = row.counts.get("elements") or row.count("m") * row.count("n")
    dtype = _dtype(row, known.dtype)
    tensors = known.backward if direction == "backward" else known.forward
    return Work(Kernel(known.kernel), dtype, 0, round(elements * tensors * dtype.itemsize), 0)
