"""The kernels of the simulator that a row measured: what a device prices."""

from __future__ import annotations

from simcluster.accuracy.kernels.composed_kernels import (
    expert_loop,
    projected_cross_entropy,
    unfused_attention,
)
from simcluster.accuracy.kernels.kernel_parts import (
    DIRECTIONS,
    KernelTask,
    dtype_of,
    expert_mlp,
    gemm_work,
    stated,
)
from simcluster.accuracy.kernels.library_passes import quantising_passes
from simcluster.accuracy.kernels.memory_operator import MemoryOperator, operator_of
from simcluster.accuracy.kernels.row import MeasuredKernel
from simcluster.cluster import Direction
from simcluster.errors import PlanError
from simcluster.work import GemmLayout, Kernel, Work

LAYOUTS = {
    "": GemmLayout.FORWARD,
    "TN": GemmLayout.FORWARD,
    "NN": GemmLayout.INPUT_GRADIENT,
    "NT": GemmLayout.WEIGHT_GRADIENT,
    "FWD": GemmLayout.FORWARD,
    "DGRAD": GemmLayout.INPUT_GRADIENT,
    "WGRAD": GemmLayout.WEIGHT_GRADIENT,
}
"""Layouts by TransformerEngine's names, or by what they compute."""

RELEASES = {"[FlashAttention-2]": 2, "FlashAttention-2": 2, "FA2": 2, "[FlashAttention]": 1}
"""Earlier kernels of attention, by how the name of a row ends."""

EXPERT_MLPS = {
    "moe (fused expert MLP)": "vllm",
    "fused_moe [liger]": "liger",
    "fused MoE MLP": "aiter",
}
"""Whole expert MLPs in kernels of their own, not those of matmul libraries that training runs."""

_BURST = "near boost clock"
_BOTH = "(2x FLOPs)"


def kernel_task(row: MeasuredKernel) -> KernelTask:
    """What a row measured; PlanError, with the reason, if it is nothing that a device file prices."""
    burst = _BURST in row.notes
    if row.operation == "gemm":
        return KernelTask(_gemms(row), burst, passes=quantising_passes(row))
    if row.operation == "grouped_gemm":
        if "[huggingface]" in row.words["op"]:
            return expert_loop(row, burst)
        works = _grouped(row)
        library = EXPERT_MLPS.get(row.words["op"])
        if library is None:
            return KernelTask(works, burst)
        (direction,) = DIRECTIONS[row.words["direction"]]
        return KernelTask(works, burst, "expert_mlp", library, (direction,) * len(works))
    if row.operation in ("attention_fwd", "attention_bwd", "attention_decode", "attention"):
        return KernelTask((_attention(row, backward=_is_backward(row)),), burst)
    if row.operation == "other" and "attention fwd+bwd" in row.words["op"]:
        if "unfused" in row.words["op"]:
            return unfused_attention(row, burst)
        return KernelTask(tuple(_attention(row, backward=backward) for backward in (False, True)), burst)
    if row.words["op"].startswith("fused_linear_cross_entropy"):
        return projected_cross_entropy(row, burst)
    known = operator_of(row.words["op"], row.group)
    if known is None:
        raise PlanError(f"it is not known what '{row.words['op']}' reads and writes")
    directions = DIRECTIONS.get(row.words["direction"])
    if directions is None:
        raise PlanError(f"direction '{row.words['direction']}' is none of {', '.join(DIRECTIONS)}")
    works = tuple(_stream(row, known, direction) for direction in directions)
    return KernelTask(works, burst, known.operator, known.implementation, directions)


def _gemms(row: MeasuredKernel) -> tuple[Work, ...]:
    """A matmul, or the two of its gradients where the row times both."""
    m, n, k = stated(row, "m", "n", "k")
    b, dtype = row.count("batch"), dtype_of(row)
    if _BOTH in row.notes:
        return (
            gemm_work(dtype, b, m, k, n, GemmLayout.INPUT_GRADIENT),
            gemm_work(dtype, b, k, n, m, GemmLayout.WEIGHT_GRADIENT),
        )
    return (gemm_work(dtype, b, m, n, k, _layout(row), row.notes),)


def _layout(row: MeasuredKernel) -> GemmLayout:
    return LAYOUTS.get(row.words["layout"].upper(), GemmLayout.FORWARD)


def _grouped(row: MeasuredKernel) -> tuple[Work, ...]:
    groups, m, n, k = stated(row, "batch", "m", "n", "k")
    dtype, op = dtype_of(row), row.words["op"]
    if not any(word in op for word in ("MLP", "moe")):
        return (gemm_work(dtype, groups, m, n, k, _layout(row), row.notes, grouped=True),)
    gradients = row.words["direction"] == "bwd"
    return expert_mlp(dtype, groups, m, k, n, backward=gradients)


def _attention(row: MeasuredKernel, *, backward: bool) -> Work:
    op = row.words["op"]
    if any(word in op.lower() for word in ("unfused", "eager", "math", "naive")):
        raise PlanError("unfused attention is a chain of kernels whose passes the row does not state")
    batch, heads, size, queries, keys = stated(row, "batch", "heads", "head_dim", "seq_q", "seq_kv")
    dtype, causal = dtype_of(row), row.words["causal"] == "true" and queries > 1
    kv_heads = row.count("kv_heads", heads)
    values = _value_size(row.notes, size)
    # With a mask, queries are the last ones: they see all keys before them.
    before = keys - queries if causal else 0
    pairs = queries * queries + 2 * queries * before if causal else 2 * queries * keys
    products = 3 * size + 2 * values if backward else size + values
    query, key = batch * queries * heads, batch * keys * kv_heads
    read = dtype.num_bytes(query * size + key * (size + values))
    written = query * values * 2
    if backward:
        read, written = read + 2 * dtype.num_bytes(query * values), read
    release = next((number for end, number in RELEASES.items() if op.endswith(end)), 0)
    sizes = {"b": batch, "h": heads, "sq": queries, "skv": keys, "d": size}
    sizes |= {"dv": values} if values != size else {}
    sizes |= {"causal": int(causal), **({"before": before} if before else {}), "backward": int(backward)}
    sizes |= {"release": release} if release else {}
    return Work(
        Kernel.ATTENTION, dtype, products * batch * heads * pairs, read, written, tuple(sizes.items())
    )


def _is_backward(row: MeasuredKernel) -> bool:
    return row.operation == "attention_bwd" or (
        row.operation == "attention" and row.words["direction"] == "bwd"
    )


def _vocabulary(notes: str) -> int:
    """The rows of an embedding's table, where the notes state them; else 0."""
    return int(digits) if (digits := notes.partition("vocab=")[2].split(";")[0].strip()).isdecimal() else 0


def _value_size(notes: str, size: int) -> int:
    """The size of a head's values, where the notes give one that is not that of its keys."""
    rest = notes.partition("v_head_dim=")[2]
    digits = rest.split(";")[0].split(",")[0].strip()
    return int(digits) if digits.isdecimal() else size


def _stream(row: MeasuredKernel, known: MemoryOperator, direction: Direction) -> Work:
    elements = row.counts.get("elements") or row.count("m") * row.count("n")
    dtype = dtype_of(row, known.dtype)
    tensors = known.backward if direction == "backward" else known.forward
    if (
        known.operator == "embedding_with_table"
        and direction == "backward"
        and (rows := _vocabulary(row.notes))
    ):
        tensors += rows * row.count("n") / elements  # the gradient of the table is written whole
    return Work(Kernel(known.kernel), dtype, 0, dtype.num_bytes(round(elements * tensors)), 0)
