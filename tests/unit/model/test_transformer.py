from __future__ import annotations

from dataclasses import replace

import pytest

from simcluster.model import Role, TensorType, Transformer
from simcluster.model.operators.attention import Attention
from simcluster.model.operators.cross_entropy import CrossEntropy
from simcluster.model.operators.norm import LayerNorm, RmsNorm
from simcluster.work import DType

LLAMA = Transformer(layers=3, hidden=16, heads=8, kv_heads=2, head_dim=4, ffn=24, vocab=64)
GPT = Transformer(
    layers=2,
    hidden=16,
    heads=4,
    kv_heads=4,
    head_dim=4,
    ffn=64,
    vocab=64,
    norm="layer",
    activation="gelu",
    positions="learned",
    max_positions=10,
    bias=True,
    tied=True,
)


def graph(model):
    return model.graph(batch=2, seq_len=8, dtype=DType.BF16, num_tokens=64)


def test_equal_layers_are_one_block():
    found = graph(LLAMA)
    assert set(found.blocks) == {"embedding", "layer", "head"}
    assert [each.block for each in found.instances] == ["embedding", "layer", "layer", "layer", "head"]
    assert [each.name for each in found.instances] == [
        "embedding",
        "layers.0",
        "layers.1",
        "layers.2",
        "head",
    ]


def test_instances_are_chained_by_their_outputs():
    found = graph(LLAMA)
    assert [each.inputs for each in found.instances] == [
        (),
        ("embedding:out",),
        ("layers.0:out",),
        ("layers.1:out",),
        ("layers.2:out",),
    ]


def test_operators_of_a_llama_layer():
    names = [node.name for node in graph(LLAMA).blocks["layer"].nodes]
    assert names == [
        "attention.norm",
        "attention.qkv",
        "attention.rotary",
        "attention.core",
        "attention.out",
        "attention.residual",
        "mlp.norm",
        "mlp.up",
        "mlp.activation",
        "mlp.down",
        "mlp.residual",
    ]


def test_operators_of_a_gpt_layer():
    names = [node.name for node in graph(GPT).blocks["layer"].nodes]
    assert names == [
        "attention.norm",
        "attention.qkv",
        "attention.qkv.q.bias",
        "attention.qkv.k.bias",
        "attention.qkv.v.bias",
        "attention.core",
        "attention.out",
        "attention.out.bias",
        "attention.residual",
        "mlp.norm",
        "mlp.up",
        "mlp.up.bias",
        "mlp.activation",
        "mlp.down",
        "mlp.down.bias",
        "mlp.residual",
    ]
    assert [node.name for node in graph(GPT).blocks["embedding"].nodes] == ["tokens", "positions"]


def test_shapes_keep_batch_and_seq_apart_and_heads_in_groups():
    block = graph(LLAMA).blocks["layer"]
    core = block.node("attention.core")
    shapes = [block.values[value].type.shape for value in core.inputs]
    assert shapes == [(2, 8, 2, 4, 4), (2, 8, 2, 4), (2, 8, 2, 4)]
    assert block.values["in"].type == block.values["out"].type == TensorType((2, 8, 16), DType.BF16)
    assert isinstance(core.operator, Attention)
    assert core.operator.causal


@pytest.mark.parametrize(("model", "kind"), [(LLAMA, RmsNorm), (GPT, LayerNorm)])
def test_norms_are_those_of_the_family(model, kind):
    found = graph(model)
    norms = [node for _, node in found.nodes() if node.name.endswith("norm")]
    assert len(norms) == 2 * model.layers + 1
    assert all(isinstance(node.operator, kind) for node in norms)


def test_gated_and_plain_mlps():
    gated, plain = graph(LLAMA).blocks["layer"], graph(GPT).blocks["layer"]
    assert len(gated.node("mlp.up").operator.rights) == 2
    assert gated.values["mlp.up.gate.weight"].type.shape == (16, 24)
    assert len(plain.node("mlp.up").operator.rights) == 1
    assert plain.values["mlp.up.weight"].type.shape == (16, 64)


def test_parameters_have_names_shapes_and_the_compute_type():
    block = graph(LLAMA).blocks["layer"]
    assert {name: block.values[name].type.shape for name in block.parameters} == {
        "attention.norm.weight": (16,),
        "attention.qkv.q.weight": (16, 2, 4, 4),
        "attention.qkv.k.weight": (16, 2, 4),
        "attention.qkv.v.weight": (16, 2, 4),
        "attention.out.weight": (2, 4, 4, 16),
        "mlp.norm.weight": (16,),
        "mlp.up.gate.weight": (16, 24),
        "mlp.up.up.weight": (16, 24),
        "mlp.down.weight": (24, 16),
    }
    assert {block.values[name].type.dtype for name in block.parameters} == {DType.BF16}
    assert {block.values[name].role for name in block.parameters} == {Role.PARAMETER}


def test_the_loss_is_divided_by_the_tokens_of_the_whole_step():
    head = graph(LLAMA).blocks["head"]
    loss = head.node("loss").operator
    assert isinstance(loss, CrossEntropy)
    assert loss.scale == 1 / 64
    assert head.loss == head.node("loss").outputs[0]
    assert head.values[head.loss].type == TensorType((), DType.FP32)
    assert head.feeds == ("targets",)
    assert head.values["targets"].type == TensorType((2, 8), DType.INT64)


def test_tied_parameters_count_once_under_their_first_name():
    found = graph(GPT)
    assert found.ties == (("embedding.tokens.weight", "head.logits.weight"),)
    names = [name for name, _ in found.parameters()]
    assert "embedding.tokens.weight" in names
    assert "head.logits.weight" not in names
    assert found.canonical("head.logits.weight") == "embedding.tokens.weight"
    assert found.canonical("layers.0.mlp.up.weight") == "layers.0.mlp.up.weight"
    untied = graph(replace(GPT, tied=False))
    assert untied.num_parameters - found.num_parameters == 64 * 16


def test_parameters_do_not_depend_on_the_batch():
    assert LLAMA.num_parameters == graph(LLAMA).num_parameters
    assert len(list(graph(LLAMA).parameters())) == 1 + 3 * 9 + 2


def test_rotary_models_have_no_position_table():
    assert replace(LLAMA, max_positions=999).num_parameters == LLAMA.num_parameters
    assert "positions.weight" not in graph(LLAMA).blocks["embedding"].parameters
    assert graph(GPT).blocks["embedding"].values["positions.weight"].type.shape == (10, 16)
