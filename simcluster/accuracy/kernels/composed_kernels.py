"""What libraries make of several kernels under one name: loops over experts, attention written out."""

from __future__ import annotations

from simcluster.accuracy.kernels.kernel_parts import (
    DIRECTIONS,
    KernelTask,
    dtype_of,
    expert_mlp,
    gemm_work,
    stated,
)
from simcluster.accuracy.kernels.library_passes import LibraryPass
from simcluster.accuracy.kernels.row import MeasuredKernel
from simcluster.work import GemmLayout, Kernel, Work


def expert_loop(row: MeasuredKernel, burst: bool) -> KernelTask:
    """Experts one after another, each picked by the host: it waits for the list of an expert's tokens.

    Backward every expert's part of the weights' gradient is a tensor as large as all of them together, made
    of zeros and added to the sum: four times its bytes.
    """
    groups, m, n, k = stated(row, "batch", "m", "n", "k")
    dtype = dtype_of(row)
    (direction,) = DIRECTIONS[row.words["direction"]]
    backward = direction == "backward"
    weights = dtype.num_bytes(3 * groups * n * k)
    step = Work(Kernel.ELEMENTWISE, dtype, 0, 2 * weights * backward, 2 * weights * backward)
    works = expert_mlp(dtype, 1, m, k, n, backward=backward)
    loop = LibraryPass(step, "expert_loop", "huggingface", direction)
    return KernelTask(works * groups, burst, passes=(loop,) * groups)


def unfused_attention(row: MeasuredKernel, burst: bool) -> KernelTask:
    """Products, mask and softmax of PyTorch as kernels of their own, over all pairs whatever the mask."""
    batch, heads, size, queries, keys = stated(row, "batch", "heads", "head_dim", "seq_q", "seq_kv")
    b, dtype = batch * heads, dtype_of(row)
    forward, by_input, by_weight = GemmLayout.FORWARD, GemmLayout.INPUT_GRADIENT, GemmLayout.WEIGHT_GRADIENT
    scores, values = (queries, keys, size), (queries, size, keys)
    works = (
        gemm_work(dtype, b, *scores, forward),
        gemm_work(dtype, b, *values, by_input),
        gemm_work(dtype, b, *scores, forward),
        gemm_work(dtype, b, keys, size, queries, by_weight),
        gemm_work(dtype, b, *values, by_input),
        gemm_work(dtype, b, keys, size, queries, by_weight),
    )
    written = dtype.num_bytes(b * queries * keys)
    passes = [
        LibraryPass(Work(Kernel.REDUCTION, dtype, 0, written, written), "softmax", "aten"),
        LibraryPass(Work(Kernel.REDUCTION, dtype, 0, 2 * written, written), "softmax", "aten", "backward"),
    ]
    # Heads are brought before positions and back: queries, keys, values, results, and their gradients.
    copied = dtype.num_bytes(b * (queries + keys) * size // 2)
    passes += [LibraryPass(Work(Kernel.ELEMENTWISE, dtype, 0, copied, copied), "unary", "aten")] * 12
    if row.words["causal"] == "true":
        passes.append(LibraryPass(Work(Kernel.ELEMENTWISE, dtype, 0, written, written), "unary", "aten"))
    return KernelTask(works, burst, passes=tuple(passes))


def projected_cross_entropy(row: MeasuredKernel, burst: bool) -> KernelTask:
    """The projection to the vocabulary with the loss behind it: by PyTorch, or in chunks by Liger.

    Liger's forward computes the gradients, too: for as many rows at a time as make logits no larger than the
    input, a power of two; the gradient of the projection is added up over the chunks.
    """
    rows, vocabulary, hidden = stated(row, "m", "n", "k")
    dtype = dtype_of(row)
    by_input, by_weight = GemmLayout.INPUT_GRADIENT, GemmLayout.WEIGHT_GRADIENT
    liger = "[liger]" in row.words["op"]
    chunk = 1 << (-(-rows * hidden // vocabulary) - 1).bit_length() if liger else rows
    project = gemm_work(dtype, 1, chunk, vocabulary, hidden)
    gradients = (
        gemm_work(dtype, 1, chunk, hidden, vocabulary, by_input),
        gemm_work(dtype, 1, vocabulary, hidden, chunk, by_weight),
    )
    logits = dtype.num_bytes(chunk * vocabulary)
    read = Work(Kernel.REDUCTION, dtype, 0, logits, 0)
    whole = Work(Kernel.REDUCTION, dtype, 0, logits, logits)
    if liger:
        table = dtype.num_bytes(vocabulary * hidden)
        added = LibraryPass(Work(Kernel.ELEMENTWISE, dtype, 0, 2 * table, table), "binary", "aten")
        loss = LibraryPass(whole, "cross_entropy_with_gradient", "liger")
        return KernelTask(
            (project, *gradients) * (rows // chunk), burst, passes=(loss, added) * (rows // chunk)
        )
    loss = LibraryPass(read, "cross_entropy", "eager")
    if row.words["direction"] == "fwd":
        return KernelTask((project,), burst, passes=(loss,))
    back = LibraryPass(whole, "cross_entropy", "eager", "backward")
    return KernelTask((project, *gradients), burst, passes=(loss, back))
