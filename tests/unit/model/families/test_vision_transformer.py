from __future__ import annotations

import pytest

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.model import TensorType
from simcluster.model.families.vision_transformer import VisionTransformer
from simcluster.model.model_flops import forward_flops
from simcluster.model.operators.attention import Attention
from simcluster.model.operators.cross_entropy import CrossEntropy
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.work import DType

SMALL = VisionTransformer(layers=2, hidden=16, heads=4, head_dim=4, ffn=64, image=14, patch=4, classes=6)
WRITTEN = {"family": "vit", "layers": 2, "hidden": 16, "heads": 4, "image": 12, "patch": 4, "classes": 6}


def catalog(name):
    return validate_data({"use": name}, ModelSpec).build(None)


def test_a_sequence_is_a_class_token_and_the_whole_patches():
    assert (SMALL.grid, SMALL.fixed_seq_len, SMALL.max_seq_len) == (3, 10, 10)
    graph = SMALL.graph(batch=2, seq_len=10, dtype=DType.BF16, num_tokens=80)
    embedding = graph.blocks["embedding"]
    assert embedding.values["patches"].type == TensorType((2, 9, 3 * 4 * 4), DType.BF16)
    assert embedding.values["out"].type == TensorType((2, 10, 16), DType.BF16)
    assert [node.name for node in embedding.nodes] == ["patches", "patches.bias", "class_token", "positions"]
    core = graph.blocks["layer"].node("attention.core").operator
    assert isinstance(core, Attention)
    assert not core.causal


def test_the_head_reads_the_class_token_and_the_loss_is_a_mean_over_images():
    head = SMALL.graph(batch=2, seq_len=10, dtype=DType.BF16, num_tokens=80).blocks["head"]
    assert head.values["targets"].type == TensorType((2,), DType.INT64)
    assert head.values["targets"].num_ids == 6
    assert head.node("logits").inputs[0] == head.node("first").outputs[0]
    assert head.node("loss").operator == CrossEntropy(1 / 8, ("batch", "classes"))


@pytest.mark.parametrize(
    ("name", "giga_products", "decimals"),
    [("vit-b16", 17.56, 2), ("vit-l16", 61.55, 2), ("vit-h14", 167.3, 1)],
)
def test_forward_flops_are_twice_the_published_products(name, giga_products, decimals):
    """Multiply-adds at 224 pixels as torchvision prints them."""
    model = catalog(name)
    s, h, p = model.fixed_seq_len, model.hidden, model.channels * model.patch**2
    patches = 2 * (s - 1) * p * h
    layers = model.layers * (24 * s * h * h + 4 * s * s * h)
    flops = forward_flops(model.graph(1, s, DType.BF16, s)).counted
    assert flops == patches + layers + 2 * h * model.classes
    assert round(flops / 2e9, decimals) == giga_products


@pytest.mark.parametrize("name", ["vit-b16", "vit-l16", "vit-h14"])
def test_parameters_follow_the_closed_form(name):
    model = catalog(name)
    h, p = model.hidden, 3 * model.patch**2
    layers = model.layers * (12 * h * h + 13 * h)
    assert model.num_parameters == layers + (p + 1) * h + h + model.fixed_seq_len * h + 2 * h + 1000 * (h + 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patch": 13}, "a patch of 13 pixels is larger than the image"),
        ({"vocab": 5}, "a model of the family 'vit' has no 'vocab'"),
        ({"classes": None}, "'classes' is missing"),
    ],
)
def test_an_impossible_one_says_why(changes, message):
    with pytest.raises(ScenarioError, match=message):
        validate_data({name: v for name, v in {**WRITTEN, **changes}.items() if v is not None}, ModelSpec)
