from __future__ import annotations

import pytest

from simcluster.model import TensorType
from simcluster.plan.execution.fused_softmax import FusedSoftmax
from simcluster.plan.spec.framework import FrameworkSpec
from simcluster.work import DType


def scores(samples, heads, queries, keys, dtype=DType.FP16):
    return TensorType((samples, heads, 1, queries, keys), dtype)


@pytest.mark.parametrize(
    ("shape", "taken"),
    [
        ((1, 4, 1024, 1024), True),
        ((2, 2, 1024, 1024), True),
        ((1, 2, 1024, 1024), False),  # 16 heads on 8 tensor ranks, one sample
        ((2, 3, 2048, 2048), False),  # 48 heads on 16 tensor ranks, two samples
        ((1, 4, 2048, 2048), True),
        ((1, 4, 2052, 2052), False),
        ((1, 4, 1023, 1024), False),
        ((1, 4, 16, 16), False),
        ((1, 8, 20, 20), True),
        ((1, 4, 128, 128), False),  # eight rows a block
        ((1, 4, 132, 132), True),
    ],
)
def test_shapes_that_fit_its_blocks_are_taken(shape, taken):
    kernel = FusedSoftmax(most_keys=2048)
    assert kernel.takes(scores(*shape)) is taken
    assert not kernel.takes(scores(*shape, DType.FP32))
    assert FusedSoftmax().takes(scores(*shape, DType.FP32))


@pytest.mark.parametrize(
    ("profile", "keys"),
    [("megatron-lm-2021", 2048), ("megatron-deepspeed", 2048), ("megatron-lm-2022", 4096)],
)
def test_releases_differ_in_the_most_keys(profile, keys):
    fused = FrameworkSpec.load(profile).fused_softmax
    assert fused.most_keys == keys
    # Bytes per score: cast, scale, mask, softmax, cast, of 2 + 2; their gradients of 2 + 2 + 2.
    assert fused.traffic == {"softmax": (6 + 8 + 8 + 8 + 6) / 4, "softmax_grad": (6 + 12 + 16 + 8 + 6) / 6}
