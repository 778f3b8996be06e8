"""What operators compute, against the formulas of their papers written out in another way."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from simcluster.model import Region, TensorType
from simcluster.model.operators.activation import Gelu, Swiglu
from simcluster.model.operators.attention import Attention
from simcluster.model.operators.cross_entropy import CrossEntropy
from simcluster.model.operators.embedding import Embedding, Positions
from simcluster.model.operators.matmul import Matmul, MatmulSum
from simcluster.model.operators.norm import LayerNorm, RmsNorm
from simcluster.model.operators.optimizer import Adam, AdamW, Momentum, Sgd
from simcluster.model.operators.pointwise import Add, Bias
from simcluster.model.operators.reduction import SumTo
from simcluster.model.operators.rotary import Rotary
from simcluster.work import DType

WHOLE = Region({})
ROWS = ("batch", "hidden")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def run(operator, *inputs, region=WHOLE):
    return operator.evaluate([np.asarray(each, dtype=float) for each in inputs], region)


@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_a_weighted_mean_of_values(rng, causal):
    q, k, v = (rng.standard_normal(shape) for shape in ((2, 5, 2, 3, 4), (2, 5, 2, 4), (2, 5, 2, 4)))
    output, statistics = run(Attention(causal), q, k, v)
    for b, s, h, g in np.ndindex(2, 5, 2, 3):
        seen = range(s + 1 if causal else 5)
        scores = [sum(q[b, s, h, g] * k[b, t, h]) / math.sqrt(4) for t in seen]
        total = sum(math.exp(score) for score in scores)
        wanted = sum(math.exp(score) / total * v[b, t, h] for t, score in zip(seen, scores, strict=True))
        assert np.allclose(output[b, s, h, g], wanted)
        assert statistics[b, h, g, s] == pytest.approx(math.log(total))


def test_attention_stands_large_scores():
    q = np.full((1, 2, 1, 1, 4), 1e3)
    k = np.full((1, 2, 1, 4), 1e3)
    v = np.array([[[[1.0] * 4], [[3.0] * 4]]])
    assert np.allclose(run(Attention(), q, k, v)[0][0, :, 0, 0, 0], [1, 2])


def test_rotary_turns_pairs_by_the_position(rng):
    x = rng.standard_normal((1, 3, 2, 6))
    (y,) = run(Rotary((("batch", "seq", "heads", "head_dim"),), theta=100.0), x, region=Region({"seq": 4}))
    for s, h, pair in np.ndindex(3, 2, 3):
        angle = (4 + s) * 100.0 ** (-2 * pair / 6)
        turned = complex(x[0, s, h, pair], x[0, s, h, pair + 3]) * complex(math.cos(angle), math.sin(angle))
        assert complex(y[0, s, h, pair], y[0, s, h, pair + 3]) == pytest.approx(turned)


def test_rotary_and_its_inverse_cancel(rng):
    x = rng.standard_normal((2, 3, 2, 6))
    labels = (("batch", "seq", "heads", "head_dim"),)
    (there,) = run(Rotary(labels), x)
    (back,) = run(Rotary(labels, inverse=True), there)
    assert np.allclose(back, x)
    assert not np.allclose(there[:, 1:], x[:, 1:])


def test_layer_norm_centres_and_scales_rows(rng):
    x, w, b = rng.standard_normal((4, 32)) * 3 + 5, rng.standard_normal(32), rng.standard_normal(32)
    y, mean, reciprocal = run(LayerNorm(ROWS, eps=0.0), x, w, b)
    plain = (y - b) / w
    assert np.allclose(plain.mean(axis=1), 0)
    assert np.allclose(plain.std(axis=1), 1)
    assert np.allclose(mean, x.mean(axis=1))
    assert np.allclose(reciprocal, 1 / x.std(axis=1))
    assert run(LayerNorm(ROWS, eps=3.0), [[-1.0, 1.0]], [1, 1], [0, 0])[0][0, 1] == pytest.approx(0.5)


def test_rms_norm_scales_rows(rng):
    x, w = rng.standard_normal((4, 32)) + 2, rng.standard_normal(32)
    y, reciprocal = run(RmsNorm(ROWS, eps=0.0), x, w)
    assert np.allclose(y / w, x / np.linalg.norm(x, axis=1, keepdims=True) * math.sqrt(32))
    assert np.allclose(reciprocal, math.sqrt(32) / np.linalg.norm(x, axis=1))


def test_gelu_is_close_to_its_exact_form():
    x = np.linspace(-4, 4, 81)
    exact = [each * NormalDist().cdf(each) for each in x]
    assert np.abs(run(Gelu(("x",)), x)[0] - exact).max() < 5e-4


def test_swiglu_gates():
    (y,) = run(Swiglu(("x",)), [0.0, 100.0, 2.0], [5.0, 5.0, 3.0])
    assert np.allclose(y, [0, 500, 6 / (1 + math.exp(-2))])


def test_sums(rng):
    x, b = rng.standard_normal((2, 3, 4)), rng.standard_normal(3)
    labels = ("batch", "heads", "head_dim")
    (y,) = run(Bias(labels, ("heads",)), x, b)
    assert all(y[i, j, k] == x[i, j, k] + b[j] for i, j, k in np.ndindex(x.shape))
    assert np.allclose(run(SumTo(labels, ("heads",)), x)[0], [x[:, j].sum() for j in range(3)])
    assert np.allclose(run(Add(("x",), 3), [1, 2], [3, 4], [5, 6])[0], [9, 12])


def test_products(rng):
    x, w1, w2 = rng.standard_normal((2, 3)), rng.standard_normal((3, 4)), rng.standard_normal((5, 3))
    y1, y2 = run(Matmul(("m", "k"), (("k", "n"), ("o", "k")), (("m", "n"), ("m", "o"))), x, w1, w2)
    assert np.allclose(y1, x @ w1)
    assert np.allclose(y2, x @ w2.T)
    back = MatmulSum((("m", "n"), ("m", "o")), (("k", "n"), ("o", "k")), ("m", "k"))
    assert np.allclose(run(back, y1, y2, w1, w2)[0], y1 @ w1.T + y2 @ w2)


def test_embedding_looks_rows_up(rng):
    table = rng.standard_normal((6, 3))
    ids = np.array([[5, 0], [2, 2]])
    (rows,) = Embedding().evaluate([ids, table], WHOLE)
    assert np.array_equal(rows, table[ids])
    (local,) = Embedding().evaluate([ids, table[2:4]], Region({"vocab": 2}))
    assert np.array_equal(local[1], table[[2, 2]])
    assert not local[0].any()


def test_positions_add_the_rows_of_their_part_of_the_sequence(rng):
    x, table = rng.standard_normal((2, 3, 4)), rng.standard_normal((9, 4))
    (y,) = run(Positions(), x, table, region=Region({"seq": 5}))
    assert np.allclose(y, x + table[5:8])


def test_cross_entropy_is_the_mean_of_negative_log_probabilities(rng):
    logits, targets = rng.standard_normal((2, 3, 5)), rng.integers(0, 5, (2, 3))
    loss, statistics = CrossEntropy(1 / 6).evaluate([logits, targets], WHOLE)
    odds = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    wanted = -np.mean([math.log(odds[i, j, targets[i, j]]) for i, j in np.ndindex(2, 3)])
    assert float(loss) == pytest.approx(wanted)
    assert np.allclose(statistics, np.log(np.exp(logits).sum(axis=-1)))
    huge, _ = CrossEntropy(1.0).evaluate([np.array([[[1e4, 0.0]]]), np.array([[0]])], WHOLE)
    assert float(huge) == 0.0


# -- optimizers -----------------------------------------------------------------------------------------


def test_sgd_steps_against_the_gradient():
    (weights,) = run(Sgd(learning_rate=0.1, weight_decay=0.5), [1.0], [2.0])
    assert weights == pytest.approx([1 - 0.1 * (2 + 0.5)])


def test_momentum_is_a_heavy_ball():
    operator = Momentum(learning_rate=0.1, momentum=0.9)
    weights, velocity = [1.0], [0.0]
    for _ in range(2):
        weights, velocity = run(operator, weights, [2.0], velocity)
    assert velocity == pytest.approx([0.9 * 2 + 2])
    assert weights == pytest.approx([1 - 0.1 * 2 - 0.1 * 3.8])


def test_adam_starts_with_a_step_of_the_learning_rate():
    for gradient in (3.0, -1e-3):
        made = run(Adam(learning_rate=0.1, eps=0.0), [1.0], [gradient], [0.0], [0.0], region=Region({}, 1))
        assert made[0] == pytest.approx([1 - math.copysign(0.1, gradient)])


def test_adam_follows_its_paper():
    weights, first, second = 1.0, 0.0, 0.0
    state = ([1.0], [0.0], [0.0])
    operator = Adam(learning_rate=0.1, beta1=0.8, beta2=0.9, eps=0.01)
    for step, gradient in enumerate((1.0, -2.0, 0.5), start=1):
        first = 0.8 * first + 0.2 * gradient
        second = 0.9 * second + 0.1 * gradient**2
        weights -= 0.1 * (first / (1 - 0.8**step)) / (math.sqrt(second / (1 - 0.9**step)) + 0.01)
        state = run(operator, state[0], [gradient], *state[1:], region=Region({}, step))
        assert [float(each[0]) for each in state] == pytest.approx([weights, first, second])


def test_weight_decay_goes_through_the_moments_of_adam_and_past_those_of_adamw():
    decay = {"learning_rate": 0.1, "weight_decay": 0.5, "eps": 0.0}
    adam = run(Adam(**decay), [2.0], [1.0], [0.0], [0.0])
    assert adam[1] == pytest.approx([0.1 * (1 + 0.5 * 2)])
    assert adam[0] == pytest.approx([2 - 0.1])
    adamw = run(AdamW(**decay), [2.0], [1.0], [0.0], [0.0])
    assert adamw[1] == pytest.approx([0.1 * 1])
    assert adamw[0] == pytest.approx([2 - 0.1 * (1 + 0.5 * 2)])


def test_mixed_precision_writes_the_weights_a_second_time():
    operator = Sgd(learning_rate=0.1, cast=DType.BF16)
    master, weights = run(operator, [1.0], [2.0])
    assert np.array_equal(master, weights)
    kinds = operator.infer([TensorType((1,), DType.FP32)] * 2)
    assert [kind.dtype for kind in kinds] == [DType.FP32, DType.BF16]
