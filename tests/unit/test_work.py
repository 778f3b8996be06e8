"""Bytes of element types, scales included."""

from __future__ import annotations

import pytest

from simcluster.model import TensorType
from simcluster.work import DType


@pytest.mark.parametrize(
    ("label", "elements", "num_bytes"),
    [
        ("fp32", 3, 12),
        ("tf32", 3, 12),
        ("bf16", 3, 6),
        ("fp8", 3, 3),
        ("uint8", 3, 3),
        # One byte each, and an fp32 scale for every 2,048 (arXiv 2110.02861), the last block a short one.
        ("int8", 1, 1 + 4),
        ("int8", 2048, 2048 + 4),
        ("int8", 2049, 2049 + 8),
        ("int8", 10 * 2048, 10 * 2048 + 40),
        # Half a byte each, and a byte of scale for 16, or for 32.
        ("nvfp4", 33, 17 + 3),
        ("mxfp4", 33, 17 + 2),
        ("mxfp8", 33, 33 + 2),
    ],
)
def test_bytes(label, elements, num_bytes):
    dtype = DType.of(label)
    assert dtype.num_bytes(elements) == num_bytes
    assert TensorType((elements,), dtype).num_bytes == num_bytes
    assert str(dtype) == label


def test_what_holds_activations_is_a_float():
    assert DType.FP8.is_float
    assert DType.TF32.is_float
    assert not DType.INT8.is_float
