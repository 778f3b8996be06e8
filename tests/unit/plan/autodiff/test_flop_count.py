"""The FLOPs that training requires: three times the forward pass, but for gradients that nothing needs."""

from __future__ import annotations

import pytest

from simcluster.document import validate_data
from simcluster.model import forward_flops
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.plan.autodiff.flop_count import training_flops
from simcluster.work import DType


def graph_of(seq_len, **model):
    return validate_data(model, ModelSpec).build(None).graph(1, seq_len, DType.BF16, 1)


@pytest.mark.parametrize(
    ("model", "seq_len", "first"),
    [
        # The convolution 7 x 7 of 3 colours to 64 channels, on 112 x 112 positions.
        ("resnet-50", 1, 2 * 112**2 * 49 * 3 * 64),
        # Patches of 16 x 16 pixels of 3 colours to 768, 14 x 14 of them.
        ("vit-b16", 197, 2 * 14**2 * 16**2 * 3 * 768),
        ("gpt2", 64, 0),
        ("qwen3-30b-a3b", 64, 0),
    ],
)
def test_pictures_need_no_gradient(model, seq_len, first):
    """It counted as the model's, though no plan computes it, so that HFU came out below MFU."""
    graph = graph_of(seq_len, use=model)
    assert training_flops(graph).counted == 3 * forward_flops(graph).counted - first


def test_what_a_gradient_computes_again_is_not_the_models():
    """The indexer of sparse attention reads detached values: less is needed, though some is made twice."""
    graph = graph_of(64, use="deepseek-v3.2")
    assert training_flops(graph).counted < 3 * forward_flops(graph).counted
