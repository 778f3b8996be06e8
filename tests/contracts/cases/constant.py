"""Arrays that are written in the model."""

from __future__ import annotations

import numpy as np

from simcluster.model.operators.constant import Constant
from simcluster.work import DType
from tests.contracts.operator_case import Case

_LABELS = ("dim0", "dim1")
_IDS = np.arange(32).reshape(4, 8)

CASES = (
    Case("constant ids", Constant.of(_LABELS, _IDS, DType.INT64), lambda rng: (), views=True),
    Case("constant mask", Constant.of(_LABELS, _IDS % 3 == 0, DType.UINT8), lambda rng: (), views=True),
    Case("constant numbers", Constant.of(_LABELS, _IDS / 7, DType.BF16), lambda rng: (), views=True),
)
