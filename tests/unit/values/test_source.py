"""What verify feeds both sides with."""

from __future__ import annotations

import numpy as np

from simcluster.model import TensorType
from simcluster.values.source import SeededData
from simcluster.work import DType


def test_ids_are_all_that_lie_below():
    source = SeededData(seed=0, dtype=np.dtype("float64"))
    kind = TensorType((64,), DType.INT32)
    assert {*source.feed("tokens", kind, step=0, micro_batch=0, below=3).tolist()} == {0, 1, 2}
    assert {*source.feed("tokens", kind, step=0, micro_batch=1, below=1).tolist()} == {0}
