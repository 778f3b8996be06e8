"""Which kernels a cast to nvfp4 is, and what it does to values."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.model import Nvfp4Cast, Region, TensorType
from simcluster.work import DType


@pytest.mark.parametrize(
    ("transformed", "copies", "read", "written"),
    [
        # The largest value and a pass for each copy; of weights one pass for both.
        (True, 2, 3, [1, 1]),
        (True, 1, 2, [1]),
        (False, 2, 2, [2]),
    ],
)
def test_passes_over_memory(transformed, copies, read, written):
    kind = TensorType((32, 64), DType.BF16)
    cast = Nvfp4Cast(("a", "b"), copies=copies, transformed=transformed)
    outputs = cast.infer([kind])
    assert outputs == (TensorType((32, 64), DType.NVFP4),) * copies
    works = cast.work([kind], outputs)
    elements = 32 * 64
    assert sum(work.bytes_read for work in works) == 2 * elements * read
    # Four bits, and a byte for 16 elements.
    assert [work.bytes_written for work in works] == [elements * 9 // 16 * count for count in written]


def test_two_significant_bits():
    """1, 1.5 and powers of two of them: what E2M1 has, at any scale."""
    (made,) = Nvfp4Cast(("x",)).evaluate([np.array([1.2, 1.3, -2.4, 2.6, 0.0])], Region({}))
    assert made.tolist() == [1.0, 1.5, -2.0, 3.0, 0.0]
