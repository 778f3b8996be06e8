from __future__ import annotations

import pytest

from simcluster.document import validate_data
from simcluster.model import Role, TensorType
from simcluster.model.families.encoder import Encoder
from simcluster.model.model_flops import forward_flops
from simcluster.model.operators.attention import Attention
from simcluster.model.operators.cross_entropy import CrossEntropy
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.work import DType

SMALL = Encoder(layers=3, hidden=16, heads=4, head_dim=4, ffn=64, vocab=61, max_positions=32)


def graph(model=SMALL, seq_len=20):
    return model.graph(batch=2, seq_len=seq_len, dtype=DType.BF16, num_tokens=8 * seq_len)


def catalog(name):
    return validate_data({"use": name}, ModelSpec).build(None)


def test_a_layer_normalises_after_each_sum():
    names = [node.name for node in graph().blocks["layer"].nodes if "bias" not in node.name]
    assert names == [
        "attention.qkv",
        "attention.core",
        "attention.out",
        "attention.residual",
        "attention.norm",
        "mlp.up",
        "mlp.activation",
        "mlp.down",
        "mlp.residual",
        "mlp.norm",
    ]


def test_attention_looks_both_ways():
    core = graph().blocks["layer"].node("attention.core")
    assert isinstance(core.operator, Attention)
    assert not core.operator.causal
    block = graph().blocks["layer"]
    inputs, outputs = ([block.values[name].type for name in names] for names in (core.inputs, core.outputs))
    (work,) = core.operator.work(inputs, outputs)
    (causal,) = Attention().work(inputs, outputs)
    assert work.flops == 2 * causal.flops == 4 * 2 * 20 * 20 * 16


def test_feeds_are_bounded_by_what_they_index():
    found = {
        (block.name, name): (block.values[name].type, block.values[name].num_ids)
        for block in graph().blocks.values()
        for name in block.feeds
    }
    tokens = TensorType((2, 20), DType.INT64)
    picked = TensorType((2, 3), DType.INT64)
    assert found == {
        ("embedding", "tokens"): (tokens, 61),
        ("embedding", "token_types"): (tokens, 2),
        ("head", "masked"): (picked, 20),
        ("head", "targets"): (picked, 61),
        ("head", "follows"): (TensorType((2,), DType.INT64), 2),
    }


@pytest.mark.parametrize(("seq_len", "count"), [(512, 76), (128, 19), (20, 3), (100, 15), (1, 1)])
def test_a_share_of_the_positions_is_predicted(seq_len, count):
    assert SMALL.predictions(seq_len) == count


def test_both_losses_are_means_over_the_whole_step():
    """Eight sequences with three predictions each; eight next sentences."""
    head = graph().blocks["head"]
    masked, follows = head.node("loss").operator, head.node("next.loss").operator
    assert masked == CrossEntropy(1 / 24, ("batch", "picked", "vocab"))
    assert follows == CrossEntropy(1 / 8, ("batch", "classes"))
    assert head.loss == head.node("loss.sum").outputs[0]
    assert head.node("loss.sum").inputs == ("loss.out", "next.loss.out")


@pytest.mark.parametrize(
    ("name", "published", "with_heads"),
    [("bert-base", 109_482_240, 110_106_428), ("bert-large", 335_141_888, 336_226_108)],
)
def test_the_published_count_leaves_out_the_heads_of_pre_training(name, published, with_heads):
    model = catalog(name)
    layers, h, v = model.layers, model.hidden, model.vocab
    assert model.num_parameters == published
    assert published == layers * (12 * h * h + 13 * h) + (v + 512 + 2) * h + 2 * h + h * h + h
    assert model.graph(1, 512, DType.BF16, 512).num_parameters == with_heads
    assert with_heads - published == h * h + h + 2 * h + v + 2 * h + 2


def test_forward_flops_are_the_sum_of_the_parts():
    """Per sequence: projections and MLP 24 h^2 s, full attention 4 h s^2, heads on 76 and on one token."""
    model = catalog("bert-large")
    s, h, v, p = 512, 1024, 30522, 76
    layers = 24 * (24 * h * h * s + 4 * h * s * s)
    heads = 2 * p * (h * h + h * v) + 2 * (h * h + 2 * h)
    assert forward_flops(model.graph(1, s, DType.BF16, s)).counted == layers + heads


def test_the_embedding_and_the_decoder_share_their_weights():
    found = graph()
    assert found.ties == (("embedding.tokens.weight", "head.logits.weight"),)
    assert found.blocks["head"].values["logits.bias"].role is Role.PARAMETER


def test_it_reads_no_more_than_its_positions():
    assert SMALL.seq_len_error(32) == ""
    assert SMALL.seq_len_error(33) == "sequences of 33 tokens exceed the model's 32 positions"
