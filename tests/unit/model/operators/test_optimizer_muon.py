"""Muon against the iteration written out, and its kernels against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.model import Matmul, Region, TensorType, WeightMatrix
from simcluster.model.operators.optimizer import AdamW
from simcluster.model.operators.optimizer_muon import Muon, NewtonSchulz
from simcluster.work import DType, Kernel

SETTINGS = {"learning_rate": 0.02, "weight_decay": 0.1, "momentum": 0.95}


def matrix_of(rows, columns):
    """A weight that is stored as [inputs, outputs]."""
    return WeightMatrix((1,), (0,), rows, columns, (1, 1))


def as_published(gradient, steps=5):
    """The optimizer's own listing (kellerjordan.github.io/posts/muon), without its cast to bf16."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = gradient / (np.linalg.norm(gradient) + 1e-7)
    if gradient.shape[0] > gradient.shape[1]:
        x = x.T
    for _ in range(steps):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x.T if gradient.shape[0] > gradient.shape[1] else x


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
def test_three_steps_as_published(shape):
    rng = np.random.default_rng(0)
    columns, rows = shape
    weights, gradients = rng.standard_normal(shape), rng.standard_normal((3, *shape))
    muon = Muon(**SETTINGS, matrix=matrix_of(rows, columns))
    state, buffer = (weights, np.zeros(shape)), np.zeros((rows, columns))
    expected = weights.T
    for step, gradient in enumerate(gradients, start=1):
        buffer = 0.95 * buffer + gradient.T
        update = as_published(gradient.T + 0.95 * buffer) * max(1, rows / columns) ** 0.5
        expected = expected * (1 - 0.02 * 0.1) - 0.02 * update
        state = muon.step(state[0], gradient, state[1:], step)
        assert state[0] == pytest.approx(expected.T, rel=1e-5)


@given(st.integers(2, 6), st.integers(2, 6), st.integers(0, 1000))
def test_the_result_is_nearly_orthogonal(rows, columns, seed):
    """Singular values of a well-conditioned matrix end between .6 and 1.3, as published."""
    rng = np.random.default_rng(seed)
    left, _ = np.linalg.qr(rng.standard_normal((columns, columns)))
    right, _ = np.linalg.qr(rng.standard_normal((rows, rows)))
    values = np.zeros((columns, rows))
    np.fill_diagonal(values, rng.uniform(0.3, 1.0, min(rows, columns)))
    (made,) = NewtonSchulz(matrix_of(rows, columns), 5).evaluate([left @ values @ right], Region({}, step=1))
    found = np.linalg.svd(made, compute_uv=False)
    assert found.min() > 0.6 and found.max() < 1.3


@given(st.integers(1, 3), st.integers(2, 4), st.integers(2, 4), st.integers(0, 1000))
def test_matrices_side_by_side_know_nothing_of_each_other(count, rows, columns, seed):
    whole = np.random.default_rng(seed).standard_normal((count, columns, rows))
    operator = NewtonSchulz(WeightMatrix((2,), (1,), rows, columns, (1, 1, 1)), 5)
    (made,) = operator.evaluate([whole], Region({}, step=1))
    alone = NewtonSchulz(matrix_of(rows, columns), 5)
    for one, result in zip(whole, made, strict=True):
        assert result == pytest.approx(alone.evaluate([one], Region({}, step=1))[0])


def test_blocks_are_orthogonalised_by_themselves():
    rng = np.random.default_rng(1)
    gradient, none = rng.standard_normal((4, 6)), np.zeros((4, 6))
    cut = matrix_of(6, 4).in_blocks([1, 2])
    made, _ = Muon(matrix=cut, matrices="blockwise").step(none, gradient, (none,), 1)
    for half in (slice(0, 3), slice(3, 6)):
        expected = -1e-3 * 1.5**0.5 * as_published(gradient[:, half].T).T
        assert made[:, half] == pytest.approx(expected, rel=1e-5)


def test_an_empty_gradient_changes_nothing():
    none = np.zeros((4, 4))
    made, _ = Muon(matrix=matrix_of(4, 4)).step(np.ones((4, 4)), none, (none,), 1)
    assert made == pytest.approx(np.ones((4, 4)))


@pytest.mark.parametrize(
    ("scaling", "length"),
    [("original", 2.0), ("match_rms_adamw", 0.2 * 8), ("spectral", 8.0), ("unit_rms_norm", 2.0)],
)
def test_the_length_of_a_step(scaling, length):
    """64 outputs of 16 inputs."""
    parts = Muon(scaling=scaling, scale_factor=3, matrix=matrix_of(64, 16)).decompose(frozenset({"elements"}))
    assert parts.parts[-1][1].length == pytest.approx(3 * length)


@pytest.mark.parametrize("count", [1, 3])
def test_flops_of_the_products(count):
    """``5 (4 m m n + 2 m m m)`` for each matrix m x n with m <= n, whichever of the two are its rows."""
    m, n = 32, 48
    operator = NewtonSchulz(WeightMatrix((1,), (2,), m, n, (1, 1, 1)), 5)
    kind = TensorType((count, m, n), DType.FP32)
    works = operator.work([kind], [kind])
    products = [work for work in works if work.kernel is Kernel.GEMM]
    assert sum(work.flops for work in products) == count * 5 * (4 * m * m * n + 2 * m**3)
    assert {work.dtype for work in products} == {DType.BF16}
    assert [work.size("k") for work in products[:3]] == [n, m, m]
    assert operator.scratch([kind]) == 2 * (2 * m * n + 2 * m * m)
    flat = [kind, TensorType((count, n, m), DType.FP32)]
    other = NewtonSchulz(WeightMatrix((1,), (2,), n, m, (1, 1, 1)), 5).work(flat[1:], flat[1:])
    assert [work.flops for work in other if work.kernel is Kernel.GEMM] == [work.flops for work in products]


def test_what_is_a_matrix():
    x, made = ("batch", "seq", "hidden"), ("batch", "seq", "heads", "head_dim")
    heads = Matmul(x, (("hidden", "heads", "head_dim"),) * 2, (made,) * 2)
    found = WeightMatrix.of(heads, 2, (16, 4, 8))
    assert found == WeightMatrix((1, 2), (0,), 32, 16, (1, 1, 1))
    experts = Matmul(("experts", "rows", "in"), (("experts", "in", "out"),), (("experts", "rows", "out"),))
    assert WeightMatrix.of(experts, 1, (8, 16, 32)).sizes((2, 16, 32)) == (2, 32, 16)
    logits = Matmul(x, (("vocab", "hidden"),), (("batch", "seq", "vocab"),))
    assert WeightMatrix.of(logits, 1, (100, 16)) is None


def test_what_is_none_goes_through_adamw():
    rule = Muon(**SETTINGS, beta1=0.8, beta2=0.9, eps=1e-6, cast=DType.BF16).on(None)
    assert rule == AdamW(**SETTINGS, beta1=0.8, beta2=0.9, eps=1e-6, cast=DType.BF16)
    assert Muon().all_states == ("momentum", "moment1", "moment2")
