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


def names(model, block="layer"):
    return [node.name for node in graph(model).blocks[block].nodes]


def test_dropout_stands_behind_embedding_attention_and_mlp():
    model = replace(GPT, dropout=0.1, embedding_dropout=0.2, attention_dropout=0.3)
    assert names(model, "embedding") == ["tokens", "positions", "dropout"]
    found = names(model)
    for part in ("attention", "mlp"):
        assert found.index(f"{part}.residual") == found.index(f"{part}.dropout") + 1
    layer = graph(model).blocks["layer"]
    assert layer.node("attention.core").operator.dropout == 0.3
    assert layer.node("mlp.dropout").operator.rate == 0.1
    assert graph(model).blocks["embedding"].node("dropout").operator.rate == 0.2
    assert names(replace(model, embedding_dropout=0.0), "embedding") == ["tokens", "positions"]


def test_attention_kernel_by_kernel():
    model = replace(GPT, attention_dropout=0.1)
    core = [name for name in names(model.computed(flash=False, logits=None)) if ".core" in name]
    assert core == [f"attention.core.{part}" for part in ("scores", "softmax", "dropout", "context")]
    plain = [name for name in names(GPT.computed(flash=False, logits=None)) if ".core" in name]
    assert plain == [f"attention.core.{part}" for part in ("scores", "softmax", "context")]
    layer = graph(model.computed(flash=False, logits=None)).blocks["layer"]
    assert layer.values["attention.core.scores.out"].type.shape == (2, 4, 1, 8, 8)


def test_logits_of_another_type_are_cast():
    assert names(GPT, "head") == ["norm", "logits", "loss"]
    cast = GPT.computed(flash=True, logits=DType.FP32)
    assert names(cast, "head") == ["norm", "logits", "logits.cast", "loss"]
    assert names(GPT.computed(flash=True, logits=DType.BF16), "head") == ["norm", "logits", "loss"]


def test_biases_of_queries_keys_and_values_alone():
    found = [name for name in names(replace(LLAMA, qkv_bias=True)) if name.endswith("bias")]
    assert found == [f"attention.qkv.{part}.bias" for part in "qkv"]


def test_head_norms_stand_before_the_rotation():
    found = names(replace(LLAMA, qk_norm=True))
    at = found.index("attention.q_norm")
    assert found[at - 1 : at + 3] == [
        "attention.qkv",
        "attention.q_norm",
        "attention.k_norm",
        "attention.rotary",
    ]
    layer = graph(replace(LLAMA, qk_norm=True)).blocks["layer"]
    assert layer.values["attention.q_norm.weight"].type.shape == (4,)


def test_a_norm_behind_the_embedding():
    assert names(replace(GPT, embedding_norm=True, embedding_dropout=0.1), "embedding") == [
        "tokens",
        "positions",
        "norm",
        "dropout",
    ]


def test_alibi_has_no_table_and_gives_attention_its_slopes():
    model = replace(LLAMA, positions="alibi")
    assert names(model, "embedding") == ["tokens"]
    assert "attention.rotary" not in names(model)
    assert graph(model).blocks["layer"].node("attention.core").operator.alibi == (2, 4)
    assert model.max_seq_len is None
    assert (
        graph(replace(LLAMA, positions="none")).blocks["layer"].node("attention.core").operator.alibi is None
    )


def test_norms_without_biases():
    found = graph(replace(GPT, norm_bias=False))
    assert not [name for name, _ in found.parameters() if name.endswith("norm.bias")]


def test_rows_before_the_first_position():
    model = replace(GPT, position_offset=2)
    assert graph(model).blocks["embedding"].values["positions.weight"].type.shape == (12, 16)
    assert model.max_seq_len == 10


def test_the_query_layer_is_the_last_one():
    """Its queries are projected from a table of positions, keys and values from the layer before."""
    model = replace(GPT, layers=3, query_layer=True)
    found = graph(model)
    assert [each.block for each in found.instances] == ["embedding", "layer", "layer", "query_layer", "head"]
    block = found.blocks["query_layer"]
    assert block.node("attention.query").inputs == ("positions.out", "attention.query.q.weight")
    assert block.node("attention.qkv").inputs[0] == "attention.norm.out"
    assert block.node("attention.residual").inputs[0] == "in"
    assert block.feeds == ("tokens",)
    assert found.num_parameters - graph(replace(model, query_layer=False)).num_parameters == 10 * 16
    only = graph(replace(model, layers=1))
    assert [each.block for each in only.instances] == ["embedding", "query_layer", "head"]


def test_small_forms_keep_their_structure():
    model = replace(LLAMA, window=4096, rotary_fraction=0.25, head_dim=128)
    small = model.shrunk(2, lambda dim, times=1: times, padded=False)
    assert 0 < small.window < 4
    assert int(small.head_dim * small.rotary_fraction) // 2 > 0
