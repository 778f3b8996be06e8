from __future__ import annotations

import math

import numpy as np
import pytest

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.model import TensorType
from simcluster.model.families.encoder_decoder import EncoderDecoder
from simcluster.model.model_flops import forward_flops
from simcluster.model.operators.attention import Attention
from simcluster.model.operators.cross_entropy import CrossEntropy
from simcluster.model.operators.relative_bias import buckets
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.work import DType

SMALL = EncoderDecoder(encoder_layers=2, decoder_layers=3, hidden=16, heads=4, head_dim=8, ffn=24, vocab=61)
WRITTEN = {"family": "t5", "encoder_layers": 1, "decoder_layers": 1, "hidden": 16, "heads": 4, "vocab": 64}
NAMES = ["t5-small", "t5-base", "t5-large", "t5-3b", "t5-11b"]


def graph(model=SMALL):
    return model.graph(batch=2, seq_len=8, dtype=DType.BF16, num_tokens=64)


def catalog(name, **changes):
    return validate_data({"use": name, **changes}, ModelSpec).build(None)


def test_every_decoder_layer_reads_the_encoder_and_every_layer_the_bias_of_its_side():
    read = {each.name: each.inputs for each in graph().instances}
    assert read == {
        "encoder.embedding": (),
        "encoder.positions": (),
        "encoder.layers.0": ("encoder.embedding:out", "encoder.positions:out"),
        "encoder.layers.1": ("encoder.layers.0:out", "encoder.positions:out"),
        "encoder.output": ("encoder.layers.1:out",),
        "decoder.embedding": (),
        "decoder.positions": (),
        **{
            f"decoder.layers.{index}": (
                f"decoder.layers.{index - 1}:out" if index else "decoder.embedding:out",
                "decoder.positions:out",
                "encoder.output:out",
            )
            for index in range(3)
        },
        "head": ("decoder.layers.2:out",),
    }


def test_operators_of_a_decoder_layer():
    assert [node.name for node in graph().blocks["decoder_layer"].nodes] == [
        "attention.norm",
        "attention.qkv",
        "attention.core",
        "attention.out",
        "attention.residual",
        "cross.norm",
        "cross.query",
        "cross.kv",
        "cross.core",
        "cross.out",
        "cross.residual",
        "mlp.norm",
        "mlp.up",
        "mlp.activation",
        "mlp.down",
        "mlp.residual",
    ]


def test_attention_is_not_scaled_and_biased_where_it_looks_at_its_own_side():
    blocks = graph().blocks
    cores = {
        (block, part): blocks[block].node(f"{part}.core").operator
        for block, part in (
            ("encoder_layer", "attention"),
            ("decoder_layer", "attention"),
            ("decoder_layer", "cross"),
        )
    }
    assert all(isinstance(core, Attention) and core.scale == 1 for core in cores.values())
    assert [(core.causal, core.biased) for core in cores.values()] == [
        (False, True),
        (True, True),
        (False, False),
    ]


def test_targets_may_have_a_length_of_their_own():
    model = EncoderDecoder(
        **{**{name: getattr(SMALL, name) for name in SMALL.dimensions}, "decoder_seq_len": 6}
    )
    found = graph(model)
    head, layer = found.blocks["head"], found.blocks["decoder_layer"]
    assert layer.values["in"].type == TensorType((2, 6, 16), DType.BF16)
    assert layer.values["memory"].type == TensorType((2, 8, 16), DType.BF16)
    assert layer.values["bias"].type == TensorType((4, 1, 6, 6), DType.BF16)
    assert head.values["targets"].type == TensorType((2, 6), DType.INT64)
    # Eight pairs in the step, six target tokens each.
    assert head.node("loss").operator == CrossEntropy(1 / 48)
    assert graph().blocks["head"].node("loss").operator == CrossEntropy(1 / 64)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_follow_the_closed_form(name):
    model = catalog(name)
    h, inner, f = model.hidden, model.heads * model.head_dim, model.ffn
    encoder = 4 * h * inner + 2 * h * f + 2 * h
    decoder = 8 * h * inner + 2 * h * f + 3 * h
    layers = model.encoder_layers * encoder + model.decoder_layers * decoder
    assert model.num_parameters == layers + 32128 * h + 2 * h + 2 * 32 * model.heads


def test_a_head_of_its_own_and_a_gated_mlp_count_besides():
    """T5 1.1."""
    tied, untied = catalog("t5-small"), catalog("t5-small", tied=False, activation="geglu", ffn=1024)
    gates = 12 * 512 * (3 * 1024 - 2 * 2048)
    assert untied.num_parameters - tied.num_parameters == 32128 * 512 + gates


@pytest.mark.parametrize("targets", [512, 114])
def test_forward_flops_are_the_sum_of_the_parts(targets):
    model = catalog("t5-base", decoder_seq_len=targets)
    s, t, h, layers = 512, targets, 768, 12
    encoder = layers * (24 * h * h * s + 4 * h * s * s)
    own = 24 * h * h * t + 2 * h * t * t
    cross = 4 * h * h * t + 4 * h * h * s + 4 * h * t * s
    head = 2 * h * 32128 * t
    found = forward_flops(model.graph(1, s, DType.BF16, s))
    assert found.counted == encoder + layers * (own + cross) + head
    assert found.square == found.counted + layers * 2 * h * t * t


def reference(distance, count, farthest, both):
    """The rule of the paper's code, one distance at a time."""
    first = 0
    if both:
        count //= 2
        first, distance = (count, distance) if distance > 0 else (0, -distance)
    else:
        distance = max(-distance, 0)
    exact = count // 2
    if distance < exact:
        return first + distance
    far = exact + int(math.log(distance / exact) / math.log(farthest / exact) * (count - exact))
    return first + min(far, count - 1)


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize(("count", "farthest"), [(32, 128), (8, 6), (4, 100)])
def test_buckets_grow_logarithmically(both, count, farthest):
    distances = np.arange(-300, 301)
    found = buckets(distances, count, farthest, both=both).tolist()
    assert found == [reference(int(distance), count, farthest, both) for distance in distances]
    assert set(found) <= set(range(count))


def test_landmarks_of_the_buckets():
    """Both ways 8 exact and 8 growing buckets each; causal 16 and 16, all later keys in the first."""
    both = dict(
        zip(range(-200, 201), buckets(np.arange(-200, 201), 32, 128, both=True).tolist(), strict=True)
    )
    assert [both[d] for d in (0, -1, -7, -8, -127, -128, -200, 1, 7, 8, 200)] == [
        *(0, 1, 7, 8, 15, 15, 15),
        *(17, 23, 24, 31),
    ]
    back = dict(zip(range(-200, 9), buckets(np.arange(-200, 9), 32, 128, both=False).tolist(), strict=True))
    assert [back[d] for d in (8, 0, -15, -16, -127, -200)] == [0, 0, 15, 16, 31, 31]


def test_small_forms_keep_both_sides():
    model = catalog("t5-11b", decoder_layers=8)
    for layers in (2, 3, 8):
        small = model.shrunk(layers, lambda dim, times=1: 2 * times, padded=False)
        assert small.num_layers == layers
        assert small.encoder_layers >= small.decoder_layers >= 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"buckets": 6}, "6 buckets are not a multiple of 4"),
        ({"max_distance": 16}, "16 buckets hold one distance each"),
        ({"layers": 4}, "a model of the family 't5' has no 'layers'"),
        ({"activation": "geglu"}, "'ffn' is missing: a gated MLP has no usual size"),
        ({"decoder_layers": None}, "'decoder_layers' is missing"),
    ],
)
def test_an_impossible_one_says_why(changes, message):
    written = {name: value for name, value in {**WRITTEN, **changes}.items() if value is not None}
    with pytest.raises(ScenarioError, match=message):
        validate_data(written, ModelSpec)
