"""Optimizer updates and gradients' norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from simcluster.model.operators.clip import ClipFactor, ScaleGradient, SumOfSquares
from simcluster.model.operators.optimizer import Adam, AdamW, Momentum, Sgd
from simcluster.model.operators.optimizer_lamb import Lamb, LambDirection, LambStep
from simcluster.model.operators.optimizer_muon import Muon, MuonMomentum, MuonStep, NewtonSchulz
from simcluster.model.operators.sparse_optimizers import Ftrl, LazyAdam
from simcluster.model.operators.sparse_updates import OwnRowGradient, SparseGradient, SparseUpdate
from simcluster.model.weight_matrix import WeightMatrix
from simcluster.work import DType
from tests.contracts.operator_case import Case, Draw, ids_and, normal

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


def _ftrl_state(rng):
    weights, gradient, added, linear = rng.standard_normal((4, 16))
    return weights, gradient, added**2, linear


def _table(count: int, ids: tuple[int, ...] = (4, 8)) -> Draw:
    """A table of 12 rows, gradients of rows, their ids and ``count`` states, the last two not negative."""

    def draw(rng):
        states = np.abs(rng.standard_normal((count, 12, 4)))
        return rng.standard_normal((12, 4)), rng.standard_normal((*ids, 4)), rng.integers(0, 12, ids), *states

    return draw


_ONE_COLUMN = WeightMatrix((0,), (), 16, 1, (1,))

_PARTLY: dict[str, Any] = {"reads_part": frozenset({0, 1, 3, 4}), "writes_part": frozenset({0, 1, 2, 3})}


CASES = (
    Case("sgd", Sgd(weight_decay=0.1), optimizer_state(0), nonlinear={frozenset({0, 1}): _NEVER}),
    Case(
        "momentum", Momentum(weight_decay=0.1), optimizer_state(1), nonlinear={frozenset({0, 1, 2}): _NEVER}
    ),
    Case("adam", Adam(weight_decay=0.1), optimizer_state(2)),
    Case("adamw", AdamW(weight_decay=0.1), optimizer_state(2)),
    Case("adamw with a master copy", AdamW(weight_decay=0.1, cast=DType.BF16), optimizer_state(2)),
    Case("lazy_adam", LazyAdam(weight_decay=0.1), optimizer_state(2)),
    Case("ftrl", Ftrl(learning_rate=0.05, l1=0.1), _ftrl_state),
    Case(
        "own_row_gradient",
        OwnRowGradient(("batch", "seq"), "hidden"),
        ids_and((4, 8), 12, (4, 8, 4)),
        views=True,
        handed_on=True,
    ),
    Case("row_gradient", SparseGradient(), ids_and((4, 8), 12, (4, 8, 4)), views=True, handed_on=True),
    Case("row_update", SparseUpdate(LazyAdam(), 12), _table(2), **_PARTLY),
    Case("row_update of one id each", SparseUpdate(LazyAdam(), 12, 1), _table(2, (8,)), **_PARTLY),
    Case("row_update by ftrl", SparseUpdate(Ftrl(l1=0.1), 12), _table(2), **_PARTLY),
    Case(
        "row_update with a master copy",
        SparseUpdate(LazyAdam(cast=DType.BF16), 12),
        _table(2),
        **_PARTLY,
    ),
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
    Case("muon", Muon(weight_decay=0.1, matrix=_ONE_COLUMN), optimizer_state(1)),
    Case(
        "muon with a master copy",
        Muon(weight_decay=0.1, matrix=_ONE_COLUMN, cast=DType.BF16),
        optimizer_state(1),
    ),
    Case(
        "muon_momentum",
        MuonMomentum(0.9, nesterov=True),
        normal((16,), (16,)),
        nonlinear={frozenset({0, 1}): _NEVER},
    ),
    Case("newton_schulz", NewtonSchulz(WeightMatrix((2,), (1,), 6, 4, (1, 1, 1)), 5), normal((4, 4, 6))),
    Case("muon_step", MuonStep(0.1, 0.1, 1.0), normal((16,), (16,)), nonlinear={frozenset({0, 1}): _NEVER}),
    Case(
        "muon_step with a master copy",
        MuonStep(0.1, 0.1, 1.0, cast=DType.BF16),
        normal((16,), (16,)),
        nonlinear={frozenset({0, 1}): _NEVER},
    ),
    Case("sum_of_squares", SumOfSquares(), normal((16,))),
    Case("sum_of_squares of two", SumOfSquares(2), normal((16,), (16,))),
    Case("clip_factor", ClipFactor(0.1), _squares),
    Case("scale_gradient", ScaleGradient(), normal((16,), ())),
)
