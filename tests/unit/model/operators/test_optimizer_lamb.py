"""LAMB against algorithm 2 of You et al. (arXiv 1904.00962), written out element by element."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simcluster.model import Region, TensorType
from simcluster.model.operators.optimizer_lamb import Lamb
from simcluster.work import DType

SETTINGS = {"learning_rate": 0.02, "weight_decay": 0.01, "beta1": 0.8, "beta2": 0.95, "eps": 1e-6}


def by_the_paper(weights, gradients):
    """The weights after each step, one layer, phi the identity."""
    rate, decay, beta1, beta2, eps = SETTINGS.values()
    x = list(weights)
    m, v = [0.0] * len(x), [0.0] * len(x)
    for t, g in enumerate(gradients, start=1):
        r = []
        for i in range(len(x)):
            m[i] = beta1 * m[i] + (1 - beta1) * g[i]
            v[i] = beta2 * v[i] + (1 - beta2) * g[i] ** 2
            m_hat = m[i] / (1 - beta1**t)
            v_hat = v[i] / (1 - beta2**t)
            r.append(m_hat / (math.sqrt(v_hat) + eps))
        u = [r[i] + decay * x[i] for i in range(len(x))]
        norm_x = math.sqrt(sum(each**2 for each in x))
        norm_u = math.sqrt(sum(each**2 for each in u))
        x = [x[i] - rate * norm_x / norm_u * u[i] for i in range(len(x))]
        yield x


def test_five_steps():
    rng = np.random.default_rng(0)
    weights, gradients = rng.standard_normal(12), rng.standard_normal((5, 12))
    lamb = Lamb(**SETTINGS)
    state = (weights, np.zeros(12), np.zeros(12))
    for step, expected in enumerate(by_the_paper(weights, gradients), start=1):
        state = lamb.step(state[0], gradients[step - 1], state[1:], step)
        assert state[0] == pytest.approx(expected, rel=1e-12)


def test_the_step_has_the_length_of_the_weights():
    """Whatever the gradient's scale, the relative change of a layer is the learning rate."""
    rng = np.random.default_rng(1)
    weights, gradient = rng.standard_normal((2, 50))
    lamb = Lamb(learning_rate=0.03)
    for scale in (1e-3, 1.0, 1e3):
        made, *_ = lamb.step(weights, scale * gradient, (np.zeros(50), np.zeros(50)), 1)
        assert np.linalg.norm(made - weights) / np.linalg.norm(weights) == pytest.approx(0.03, rel=1e-9)


def test_without_a_norm_the_learning_rate_counts():
    lamb = Lamb(learning_rate=0.5, eps=1e-12)
    none = np.zeros(3)
    made, *_ = lamb.step(none, np.ones(3), (none, none), 1)
    assert made == pytest.approx([-0.5, -0.5, -0.5])
    kept, *_ = lamb.step(np.ones(3), none, (none, none), 1)
    assert kept == pytest.approx([1, 1, 1])


def test_a_whole_update_launches_the_kernels_of_its_primitives():
    """All read, direction and moments written; both read for their norms; both read, weights written."""
    types = [TensorType((1000,), DType.FP32)] * 4
    lamb = Lamb(cast=DType.BF16)
    works = lamb.work(types, lamb.infer(types))
    assert [(work.bytes_read, work.bytes_written) for work in works] == [
        (4 * 4000, 3 * 4000),
        (2 * 4000, 2 * 4),
        (2 * 4000 + 2 * 4, 4000 + 2000),
    ]


def test_the_direction_takes_the_place_of_the_gradient():
    weights, moment = TensorType((10,), DType.FP32), TensorType((10,), DType.BF16)
    gradient = TensorType((10,), DType.FP16)
    ((_, direction, *_), *_) = Lamb().decompose(frozenset({"elements"})).parts
    assert direction.infer([weights, gradient, moment, moment]) == (gradient, moment, moment)


def test_only_its_elements_are_decomposed():
    assert Lamb().decompose(frozenset()) is None
    assert Lamb().evaluate([np.ones(2)] * 4, Region({}, step=1))[0].shape == (2,)
