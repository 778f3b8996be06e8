"""The work of the kernels that decide a step's time, in numbers."""

from __future__ import annotations

import pytest

from simcluster.model import TensorType
from simcluster.model.operators.attention import Attention, AttentionGrad
from simcluster.model.operators.embedding import Embedding, EmbeddingGrad, Positions
from simcluster.model.operators.matmul import Matmul, MatmulSum
from simcluster.model.operators.norm import RmsNorm
from simcluster.model.operators.optimizer import AdamW
from simcluster.model.operators.pointwise import Add
from simcluster.work import DType, Kernel


def bf16(*shape):
    return TensorType(shape, DType.BF16)


def work_of(operator, *inputs, accumulate=False):
    (work,) = operator.work(inputs, operator.infer(inputs), accumulate=accumulate)
    return work


@pytest.mark.parametrize("causal", [True, False])
def test_attention_counts_two_products_forward_and_five_backward(causal):
    """4 b h s^2 d forward and 2.5 times that backward (arXiv 2307.08691); half of it if causal."""
    q, k = bf16(2, 64, 4, 2, 16), bf16(2, 64, 4, 16)
    forward = work_of(Attention(causal), q, k, k)
    full = 4 * 2 * (4 * 2) * 64 * 64 * 16
    assert forward.flops == (full // 2 if causal else full)
    assert dict(forward.sizes) == {
        "b": 2,
        "h": 8,
        "sq": 64,
        "skv": 64,
        "d": 16,
        "causal": int(causal),
        "backward": 0,
    }
    rows = TensorType((2, 4, 2, 64), DType.FP32)
    backward = work_of(AttentionGrad(causal), q, k, k, q, rows, q)
    assert backward.flops == forward.flops * 5 // 2
    assert dict(backward.sizes) == dict(forward.sizes) | {"backward": 1}
    assert forward.bytes_read == q.num_bytes + 2 * k.num_bytes
    assert forward.bytes_written == q.num_bytes + rows.num_bytes
    assert backward.bytes_read == 3 * q.num_bytes + 2 * k.num_bytes + rows.num_bytes
    assert backward.bytes_written == q.num_bytes + 2 * k.num_bytes


def test_a_fan_out_is_one_gemm_with_its_columns_side_by_side():
    labels = ("batch", "seq", "hidden")
    operator = Matmul(
        labels, (("hidden", "q"), ("hidden", "k")), (("batch", "seq", "q"), ("batch", "seq", "k"))
    )
    work = work_of(operator, bf16(2, 8, 16), bf16(16, 12), bf16(16, 4))
    assert dict(work.sizes) == {"b": 1, "m": 16, "n": 16, "k": 16}
    assert work.flops == 2 * 16 * 16 * 16
    assert work.bytes_read == 2 * (2 * 8 * 16 + 16 * 12 + 16 * 4)
    assert work.bytes_written == 2 * (2 * 8 * 12 + 2 * 8 * 4)
    assert (work.kernel, work.dtype) == (Kernel.GEMM, DType.BF16)


def test_a_fan_in_is_one_gemm_with_its_rows_stacked():
    operator = MatmulSum(
        (("rows", "q"), ("rows", "k")), (("hidden", "q"), ("hidden", "k")), ("rows", "hidden")
    )
    work = work_of(operator, bf16(8, 12), bf16(8, 4), bf16(16, 12), bf16(16, 4))
    assert dict(work.sizes) == {"b": 1, "m": 8, "n": 16, "k": 16, "layout": 1}
    assert work.flops == 2 * 8 * 16 * 16


def test_dims_that_all_operands_have_make_a_batch():
    operator = Matmul(("heads", "seq", "d"), (("heads", "d", "n"),), (("heads", "seq", "n"),))
    assert dict(work_of(operator, bf16(4, 8, 16), bf16(4, 16, 2)).sizes) == {"b": 4, "m": 8, "n": 2, "k": 16}


def test_a_gradient_added_into_a_buffer_reads_the_buffer():
    operator = Matmul(("rows", "hidden"), (("rows", "out"),), (("hidden", "out"),))
    inputs = (bf16(8, 16), bf16(8, 4))
    plain, adding = (work_of(operator, *inputs, accumulate=each) for each in (False, True))
    assert adding.bytes_read - plain.bytes_read == plain.bytes_written == 16 * 4 * 2


def test_a_lookup_moves_its_rows_and_never_the_table():
    ids, table = TensorType((2, 8), DType.INT64), bf16(1000, 16)
    work = work_of(Embedding(), ids, table)
    rows = 2 * 8 * 16 * 2
    assert (work.kernel, work.bytes_read, work.bytes_written) == (
        Kernel.GATHER_SCATTER,
        rows + 2 * 8 * 8,
        rows,
    )
    back = work_of(EmbeddingGrad(), ids, bf16(2, 8, 16), table)
    assert (back.bytes_read, back.bytes_written) == (rows + 2 * 8 * 8, rows)
    assert work_of(EmbeddingGrad(), ids, bf16(2, 8, 16), table, accumulate=True).bytes_read == 2 * rows + 128
    added = work_of(Positions(), bf16(2, 8, 16), bf16(1000, 16))
    assert (added.bytes_read, added.bytes_written) == (rows, rows)


def test_elementwise_kernels_and_norms_pass_over_memory_once():
    x = bf16(4, 8, 16)
    added = work_of(Add(("batch", "seq", "hidden")), x, x)
    assert (added.kernel, added.bytes_read, added.bytes_written) == (Kernel.ELEMENTWISE, 2 * 1024, 1024)
    norm = work_of(RmsNorm(("batch", "seq", "hidden")), x, bf16(16))
    assert (norm.kernel, norm.bytes_read, norm.bytes_written) == (
        Kernel.REDUCTION,
        1024 + 32,
        1024 + 4 * 8 * 4,
    )


def test_an_update_passes_over_weights_gradient_and_states():
    weights = TensorType((100,), DType.FP32)
    work = work_of(AdamW(cast=DType.BF16), weights, weights, weights, weights)
    assert (work.kernel, work.bytes_read, work.bytes_written) == (Kernel.OPTIMIZER, 1600, 1200 + 200)
