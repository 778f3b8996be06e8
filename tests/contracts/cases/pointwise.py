"""Sums, biases, casts, dropout."""

from __future__ import annotations

import numpy as np

from simcluster.model.attributes.attention_scores import LABELS as SCORES
from simcluster.model.operators.cast import Cast
from simcluster.model.operators.dropout import Dropout, DropoutGrad
from simcluster.model.operators.fp8 import E5M2, Fp8Cast, Fp8Transpose
from simcluster.model.operators.mxfp8 import Mxfp8Cast
from simcluster.model.operators.nvfp4 import Nvfp4Cast
from simcluster.model.operators.pointwise import Accumulate, Add, Bias
from simcluster.work import DType
from tests.contracts.operator_case import Case, Draw, normal

_HIDDEN = ("batch", "seq", "hidden")
_KEY = ("batch", "seq", "heads", "head_dim")
_SCORES = (4, 4, 4, 4, 4)
_ONCE = "a bias is added once, after the reduction (DESIGN 4.2)"


def _masked(*shape: int) -> Draw:
    return lambda rng: (rng.standard_normal(shape), rng.integers(0, 2, shape).astype(np.uint8))


CASES = (
    Case("add", Add(_HIDDEN), normal((4, 8, 4), (4, 8, 4)), (0,)),
    Case("add of three", Add(("x",), 3), normal((8,), (8,), (8,)), (0,)),
    Case("accumulate", Accumulate(_HIDDEN), normal((4, 8, 4))),
    Case(
        "bias",
        Bias(_HIDDEN, ("hidden",)),
        normal((4, 4, 8), (8,)),
        (0,),
        nonlinear={frozenset({0, 1}): _ONCE},
    ),
    Case(
        "bias over heads",
        Bias(_KEY, ("heads", "head_dim")),
        normal((4, 8, 4, 8), (4, 8)),
        (0,),
        nonlinear={frozenset({0, 1}): _ONCE},
    ),
    Case("cast", Cast(_HIDDEN, DType.FP32, DType.BF16), normal((4, 8, 4)), (0,)),
    Case("dropout", Dropout(_HIDDEN, 0.25, "here"), normal((4, 8, 4)), (0,)),
    Case("dropout of scores", Dropout(SCORES, 0.5, "there"), normal(_SCORES), (0,)),
    Case("dropout_grad", DropoutGrad(_HIDDEN, 0.25), _masked(4, 8, 4)),
    Case("fp8_cast", Fp8Cast(_HIDDEN), normal((4, 8, 4))),
    Case("fp8_transpose", Fp8Transpose(_HIDDEN), normal((4, 8, 4))),
    Case("mxfp8_cast", Mxfp8Cast(_HIDDEN, copies=2), normal((4, 8, 16))),
    Case("nvfp4_cast", Nvfp4Cast(_HIDDEN, copies=2), normal((4, 8, 4))),
    Case("fp8_cast of a gradient", Fp8Cast(_KEY, E5M2, copies=2), normal((4, 8, 4, 8))),
)
