"""Optimizer updates and gradients' norms."""

from __future__ import annotations

import numpy as np

from simcluster.model.operators.clip import ClipFactor, ScaleGradient, SumOfSquares
from simcluster.model.operators.lamb import Lamb, LambDirection, LambStep
from simcluster.model.operators.optimizer import Adam, AdamW, Momentum, Sgd
from simcluster.work import DType
from tests.contracts.operator_case import Case, Draw, normal

_NEVER = "what is updated is reduced before: an update reads every element once, nothing gets smaller"


def optimizer_state(count: int) -> Draw:
    """Weights, gradient and ``count`` states; the second state is a mean of squares and so not negative."""

    def draw(rng):
        arrays = rng.standard_normal((2 + count, 16))
        arrays[3:] **= 2
        return tuple(arrays)

    return draw


def _squares(rng):
    return (np.asarray(np.square(rng.standard_normal(()))),)


def _lamb_step(rng):
    weights, direction = rng.standard_normal((2, 16))
    return weights, direction, np.asarray((weights**2).sum()), np.asarray((direction**2).sum())


CASES = (
    Case("sgd", Sgd(weight_decay=0.1), optimizer_state(0), nonlinear={frozenset({0, 1}): _NEVER}),
    Case(
        "momentum", Momentum(weight_decay=0.1), optimizer_state(1), nonlinear={frozenset({0, 1, 2}): _NEVER}
    ),
    Case("adam", Adam(weight_decay=0.1), optimizer_state(2)),
    Case("adamw", AdamW(weight_decay=0.1), optimizer_state(2)),
    Case("adamw with a master copy", AdamW(weight_decay=0.1, cast=DType.BF16), optimizer_state(2)),
    Case("lamb", Lamb(weight_decay=0.1), optimizer_state(2)),
    Case("lamb with a master copy", Lamb(weight_decay=0.1, cast=DType.BF16), optimizer_state(2)),
    Case("lamb_direction", LambDirection(0.1, 0.9, 0.999, 1e-8), optimizer_state(2)),
    Case("lamb_step", LambStep(0.1), _lamb_step, nonlinear={frozenset({0, 1}): _NEVER}),
    Case(
        "lamb_step with a master copy",
        LambStep(0.1, cast=DType.BF16),
        _lamb_step,
        nonlinear={frozenset({0, 1}): _NEVER},
    ),
    Case("sum_of_squares", SumOfSquares(), normal((16,))),
    Case("sum_of_squares of two", SumOfSquares(2), normal((16,), (16,))),
    Case("clip_factor", ClipFactor(0.1), _squares),
    Case("scale_gradient", ScaleGradient(), normal((16,), ())),
)
