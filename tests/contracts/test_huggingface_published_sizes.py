"""Models of the hub by their config.json: as many parameters as they are published with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.model.spec.model_spec import ModelSpec
from tests.support.huggingface_configs import config_of, load

TABLE = Path(__file__).parents[1] / "support" / "published_models.jsonl"
MODELS = {row["name"]: row for row in map(json.loads, TABLE.read_text(encoding="utf-8").splitlines())}
"""Configs, written from memory of their repositories, and millions of parameters by their model cards."""

LLAMA = config_of("llama3-8b")


def remarks(tmp_path, config):
    load(tmp_path, config)
    return validate_data({"hf": "config.json"}, ModelSpec).remarks(tmp_path)


@pytest.mark.parametrize("name", MODELS)
def test_number_of_parameters(tmp_path, name):
    row = MODELS[name]
    counted = load(tmp_path, row["config"]).num_parameters / 1e6
    assert counted == pytest.approx(row["millions"], rel=0.01)


@pytest.mark.parametrize("name", MODELS)
def test_no_key_of_theirs_is_unknown(tmp_path, name):
    assert not [said for said in remarks(tmp_path, MODELS[name]["config"]) if "unknown" in said]


def test_a_key_that_nothing_knows_is_named(tmp_path):
    """One that is off, or about generation alone, is not."""
    said = remarks(tmp_path, LLAMA | {"attention_twist": 3, "use_twist": False, "max_length": 20})
    assert said == ("keys that are unknown here, and may change the model: attention_twist: 3",)


def test_a_head_of_classes_is_said_to_be_another(tmp_path):
    (said,) = remarks(tmp_path, LLAMA | {"architectures": ["LlamaForSequenceClassification"]})
    assert said.startswith("LlamaForSequenceClassification: its head is small")


@pytest.mark.parametrize(
    ("said", "biases"),
    [
        ({"attention_bias": True}, (False, True, True)),
        ({"attention_bias": True, "mlp_bias": True}, (True, True, True)),
        ({"attention_bias": False, "mlp_bias": True}, (True, False, False)),
    ],
)
def test_biases_of_attention_and_of_the_mlp(tmp_path, said, biases):
    model = load(tmp_path, LLAMA | said)
    assert (model.bias, model.qkv_bias, model.out_bias) == biases
    attention, mlp = 32 * (2 * 4096 + 2 * 1024), 32 * (2 * 14336 + 4096)
    more = (attention if said["attention_bias"] else 0) + (mlp if said.get("mlp_bias") else 0)
    assert model.num_parameters == load(tmp_path, LLAMA).num_parameters + more


@pytest.mark.parametrize(
    ("name", "parallel", "window"),
    [
        ("gpt-neox-20b", "two_norms", (0, 1, 0)),
        ("redpajama-3b", None, (0, 1, 0)),
        ("phi-2", "one_norm", (0, 1, 0)),
        ("falcon-7b", "one_norm", (0, 1, 0)),
        ("falcon-40b", "two_norms", (0, 1, 0)),
        ("falcon-rw-1b", None, (0, 1, 0)),
        ("command-r7b", "one_norm", (4096, 1, 4)),
        ("gpt-neo-1.3b", None, (256, 2, 0)),
        ("llama4-scout", None, (8192, 1, 4)),
    ],
)
def test_parts_side_by_side_and_windows(tmp_path, name, parallel, window):
    model = load(tmp_path, MODELS[name]["config"])
    assert model.parallel == parallel
    assert (model.window, model.window_every, model.full_attention_every) == window


def test_experts_in_every_other_layer(tmp_path):
    maverick = load(tmp_path, MODELS["llama4-maverick"]["config"])
    assert [maverick.experts.in_layer(layer) for layer in range(4)] == [False, True, False, True]
    assert (maverick.ffn, maverick.experts.ffn) == (16384, 8192)
    sparse = {"decoder_sparse_step": 2, "intermediate_size": 6144}
    assert load(tmp_path, config_of("qwen3-30b-a3b") | sparse, ffn=6144).experts.every == 2


@pytest.mark.parametrize(
    ("said", "window"),
    [
        ({"use_sliding_window": True, "max_window_layers": 0}, 4096),
        ({"use_sliding_window": True, "max_window_layers": 28}, 0),
        ({"use_sliding_window": False, "max_window_layers": 0}, 0),
    ],
)
def test_windows_of_qwen(tmp_path, said, window):
    model = load(tmp_path, config_of("qwen2.5-7b") | {"sliding_window": 4096} | said)
    assert model.window == window


def test_the_decoder_beside_an_encoder(tmp_path):
    """Of its part of the config; what that leaves out is what its class says."""
    vision = {"model_type": "clip_vision_model", "hidden_size": 1024}
    text = {"model_type": "llama", "vocab_size": 32064, "max_position_embeddings": 4096}
    llava = {"model_type": "llava", "text_config": text, "vision_config": vision}
    assert load(tmp_path, llava).num_parameters == 6_738_939_904
    assert remarks(tmp_path, llava) == ("the decoder alone is simulated: its image encoder is left out",)
    flat = config_of("qwen2.5-7b") | {"model_type": "qwen2_vl", "vision_config": vision}
    assert load(tmp_path, flat) == load(tmp_path, config_of("qwen2.5-7b"))
    audio = {"model_type": "qwen2_5_omni", "thinker_config": {"text_config": config_of("qwen2.5-7b")}}
    assert load(tmp_path, audio) == load(tmp_path, config_of("qwen2.5-7b"))


META_8B = {
    "dim": 4096,
    "ffn_dim_multiplier": 1.3,
    "multiple_of": 1024,
    "n_heads": 32,
    "n_kv_heads": 8,
    "n_layers": 32,
    "norm_eps": 1e-05,
    "rope_theta": 500000.0,
    "use_scaled_rope": True,
    "vocab_size": 128256,
}
LLAMA2 = {"dim": 8192, "multiple_of": 4096, "ffn_dim_multiplier": 1.3, "n_heads": 64, "n_kv_heads": 8}
MISTRAL = {"dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32, "n_kv_heads": 8}


@pytest.mark.parametrize(
    ("params", "count"),
    [
        (META_8B, 8_030_261_248),
        (LLAMA2 | {"n_layers": 80, "vocab_size": -1}, 68_976_648_192),
        (MISTRAL | {"vocab_size": 32000, "sliding_window": 4096}, 7_241_732_096),
        (
            MISTRAL | {"vocab_size": 32000, "moe": {"num_experts_per_tok": 2, "num_experts": 8}},
            46_702_792_704,
        ),
    ],
)
def test_params_as_meta_and_mistral_release_them(tmp_path, params, count):
    assert load(tmp_path, params).num_parameters == count
    (said,) = remarks(tmp_path, params)
    assert "params.json does not say whether the head is the embedding" in said


def test_an_object_that_is_no_config_says_so(tmp_path):
    with pytest.raises(ScenarioError, match=r"this is no config\.json of Hugging Face"):
        load(tmp_path, {"metadata": {"total_size": 16}, "weight_map": {"model.norm.weight": "a"}})


VALUES = [None, True, 0, -1, 2, 1.5, "x", [], [1], ["local"], [["global"], 1], {}, {"type": "yarn"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("published")


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_no_value_of_any_key_fails_in_another_way(folder, data):
    """A model, or an error in words."""
    config = dict(data.draw(st.sampled_from(list(MODELS.values())))["config"])
    changes = st.dictionaries(st.sampled_from(list(config)), st.sampled_from(VALUES), min_size=1, max_size=2)
    (folder / "config.json").write_text(json.dumps(config | data.draw(changes)))
    spec = validate_data({"hf": "config.json"}, ModelSpec)
    try:
        spec.build(folder)
    except ScenarioError as error:
        assert all(problem.message for problem in error.problems)
    spec.remarks(folder)
