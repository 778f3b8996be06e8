"""The output layer and its loss in one, and what it is made of."""

from __future__ import annotations

import numpy as np

from simcluster.model.operators.output_layer import (
    HiddenGradient,
    OutputLayerLoss,
    PartLogSumExp,
    PartRows,
    PartSoftmax,
    PickedRows,
)
from simcluster.work import DType
from tests.contracts.operator_case import Case, normal

_RESIZED = frozenset({"vocab"})
_FP32 = DType.FP32


def _layer(rng):
    return rng.standard_normal((4, 4, 8)), rng.standard_normal((16, 8)), rng.integers(0, 16, (4, 4))


def _targets(rng):
    return _layer(rng)[:0:-1]


def _softmax(rng):
    (logits,) = normal((4, 4, 16))(rng)
    return logits, np.log(np.exp(logits).reshape(4, 4, 4, 4).sum(axis=-1))


CASES = (
    Case(
        "output_layer_loss",
        OutputLayerLoss(1 / 16, 4, _FP32, _FP32),
        _layer,
        (0,),
        loss=True,
        resized=_RESIZED,
    ),
    Case("part_log_sum_exp", PartLogSumExp(4), normal((4, 4, 16)), resized=_RESIZED),
    Case("part_softmax", PartSoftmax(4, _FP32), _softmax, resized=_RESIZED),
    Case("part_rows", PartRows(4), normal((4, 4, 16), (16, 8)), resized=_RESIZED),
    Case("picked_rows", PickedRows(4), _targets, reads_part=frozenset({1}), resized=_RESIZED),
    Case("hidden_gradient", HiddenGradient(1 / 16), normal((4, 4, 4, 8), (4, 4, 4, 8), (4, 4, 4), (4, 4))),
)
