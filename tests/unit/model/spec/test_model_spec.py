from __future__ import annotations

import pytest

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.model.spec.model_spec import ModelSpec

SMALL = {"layers": 2, "hidden": 16, "heads": 4, "ffn": 24, "vocab": 64}
GPT = {"family": "gpt", "layers": 2, "hidden": 16, "heads": 4, "vocab": 64, "max_positions": 8}

BERT = {"family": "bert", "layers": 2, "hidden": 16, "heads": 4, "vocab": 64, "max_positions": 8}


def build(data):
    return validate_data(data, ModelSpec).build(None)


def problem(data):
    with pytest.raises(ScenarioError) as caught:
        build(data)
    (only,) = caught.value.problems
    return only


def without(data, *names):
    return {name: value for name, value in data.items() if name not in names}


def test_a_family_says_what_is_usual():
    llama, gpt = build(SMALL), build(GPT)
    assert (llama.norm, llama.activation, llama.positions, llama.bias, llama.tied) == (
        "rms",
        "swiglu",
        "rotary",
        False,
        False,
    )
    assert (gpt.norm, gpt.activation, gpt.positions, gpt.bias, gpt.tied) == (
        "layer",
        "gelu",
        "learned",
        True,
        True,
    )
    assert (llama.kv_heads, llama.head_dim) == (4, 4)
    assert gpt.ffn == 64


def test_what_is_written_wins_over_the_family():
    model = build(
        {
            **SMALL,
            "kv_heads": 2,
            "head_dim": 8,
            "tied": True,
            "bias": True,
            "norm": "layer",
            "rope_theta": 5e5,
        }
    )
    assert (model.kv_heads, model.head_dim, model.tied, model.bias) == (2, 8, True, True)
    assert (model.norm, model.rope_theta) == ("layer", 500000.0)
    assert build({**GPT, "ffn": 40}).ffn == 40


def test_a_catalog_entry_may_be_changed():
    model = build({"use": "llama3-8b", "layers": 2})
    assert (model.layers, model.hidden, model.kv_heads) == (2, 4096, 8)
    assert ModelSpec.model_validate("llama3-8b").build(None).layers == 32


def test_an_unknown_model_proposes_the_nearest():
    found = problem({"use": "llama3-7b"})
    assert "unknown model 'llama3-7b'" in found.message
    assert "did you mean 'llama3-" in f"{found.message} {found.hint}"


@pytest.mark.parametrize(
    ("data", "path", "message"),
    [
        (without(SMALL, "heads"), "", "'heads' is missing"),
        (without(SMALL, "heads", "vocab"), "", "'heads', 'vocab' are missing"),
        ({**SMALL, "kv_heads": 3}, "kv_heads", "4 heads are not a multiple of 3 key-value heads"),
        ({**SMALL, "hidden": 18}, "heads", "hidden 18 / heads 4 = 4.5: give head_dim"),
        (without(SMALL, "ffn"), "", "'ffn' is missing: a gated MLP has no usual size"),
        (
            without(GPT, "max_positions"),
            "",
            "'max_positions' is missing: the rows of the learned position table",
        ),
        ({"use": "llama3-8b", "hf": "config.json"}, "hf", "give 'use' or 'hf', not both"),
        ({**SMALL, "heads": 0}, "heads", "0"),
        ({**SMALL, "token_types": 2}, "token_types", "a model of the family 'llama' has no 'token_types'"),
        ({**BERT, "rope_theta": 1e5}, "rope_theta", "a model of the family 'bert' has no 'rope_theta'"),
        ({**BERT, "kv_heads": 2}, "kv_heads", "a model of the family 'bert' has no 'kv_heads'"),
        ({**BERT, "hidden": 18}, "heads", "hidden 18 / heads 4 = 4.5: give head_dim"),
        (without(BERT, "vocab", "max_positions"), "", "'vocab', 'max_positions' are missing"),
        ({"family": "bert", "hf": "config.json"}, "family", "says itself what it is: leave 'family' out"),
        ({**SMALL, "activation": "tanh"}, "activation", "tanh"),
        ({**SMALL, "specialists": 8}, "specialists", "unknown key 'specialists'"),
        ({**SMALL, "experts": 8}, "experts", "8 is a number; write a mapping with the keys count, top_k"),
        ({**SMALL, "activation": "geglu", "ffn": None}, "ffn", "'ffn' is missing: a gated MLP"),
        ({**SMALL, "dropout": 1.0}, "dropout", "1.0"),
        ({**SMALL, "window": 0}, "window", "0"),
        ({**GPT, "rotary_fraction": 0.5}, "rotary_fraction", "needs positions: rotary, not learned"),
        ({**SMALL, "position_offset": 2}, "position_offset", "needs positions: learned, not rotary"),
        ({**SMALL, "norm_bias": False}, "norm_bias", "needs norm: layer, not rms"),
        ({**SMALL, "query_layer": True}, "", "'max_positions' is missing: the rows of the query layer"),
    ],
)
def test_an_impossible_model_says_why_and_where(data, path, message):
    found = problem(data)
    assert found.path == path
    assert message in found.message


def test_head_dim_frees_the_hidden_size_of_the_heads():
    model = build({**SMALL, "hidden": 18, "head_dim": 5})
    assert (model.hidden, model.heads, model.head_dim) == (18, 4, 5)


def test_the_embedding_drops_as_the_layers_do_unless_said():
    assert build({**GPT, "dropout": 0.1}).embedding_dropout == 0.1
    assert build({**GPT, "dropout": 0.1, "embedding_dropout": 0.0}).embedding_dropout == 0.0
    assert build(GPT).embedding_dropout == build(GPT).attention_dropout == 0.0
