"""Cross entropy and what it is made of."""

from __future__ import annotations

import numpy as np

from simcluster.model.operators.binary_cross_entropy import BinaryCrossEntropy, BinaryCrossEntropyGrad
from simcluster.model.operators.cross_entropy import (
    CrossEntropy,
    CrossEntropyGrad,
    CrossEntropyOfParts,
    JoinLogSums,
    JoinLoss,
    LogitsExpSum,
    LogitsLogSumExp,
    LogitsMax,
    TargetLogit,
)
from tests.contracts.operator_case import Case, ids_and, normal


def _targets_last(rng):
    ids, logits = ids_and((4, 4), 8, (4, 4, 8))(rng)
    return logits, ids


def _cross_entropy_grad(rng):
    logits, ids = _targets_last(rng)
    return logits, ids, np.log(np.exp(logits).sum(axis=-1))


def _exp_sum(rng):
    (logits,) = normal((4, 4, 8))(rng)
    return logits, logits.max(axis=-1)


def _join(rng):
    peak, total, target = normal((4, 4), (4, 4), (4, 4))(rng)
    return peak, np.exp(total), target


CASES = (
    Case(
        "cross_entropy of samples",
        CrossEntropy(1 / 16, ("batch", "classes")),
        lambda rng: ids_and((16,), 8, (16, 8))(rng)[::-1],
        (0,),
        loss=True,
    ),
    Case("cross_entropy", CrossEntropy(1 / 16), _targets_last, (0,), loss=True),
    Case(
        "binary_cross_entropy",
        BinaryCrossEntropy(1 / 16),
        lambda rng: ids_and((16,), 2, (16,))(rng)[::-1],
        (0,),
        loss=True,
    ),
    Case(
        "binary_cross_entropy_grad",
        BinaryCrossEntropyGrad(1 / 16, ("batch", "seq")),
        lambda rng: ids_and((4, 8), 2, (4, 8))(rng)[::-1],
    ),
    Case("cross_entropy_grad", CrossEntropyGrad(1 / 16), _cross_entropy_grad),
    Case("logits_max", LogitsMax(), normal((4, 4, 8))),
    Case("logits_exp_sum", LogitsExpSum(), _exp_sum),
    Case("target_logit", TargetLogit(), _targets_last, reads_part=frozenset({0})),
    Case("join_loss", JoinLoss(1 / 16), _join),
    Case("logits_log_sum_exp", LogitsLogSumExp(), normal((4, 4, 8))),
    Case("join_log_sums", JoinLogSums(1 / 16), normal((4, 4), (4, 4))),
    Case("cross_entropy of parts", CrossEntropyOfParts(1 / 16), _targets_last, (0,), loss=True),
)
