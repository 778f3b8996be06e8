"""BERT, T5, ViT and ResNet out of the config.json of their repositories."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.model.spec.model_spec import ModelSpec
from tests.support.catalog_models import built
from tests.support.huggingface_configs import config_of, load


def bert_config(model):
    return {
        "architectures": ["BertForMaskedLM"],
        "model_type": "bert",
        "attention_probs_dropout_prob": model.attention_dropout,
        "hidden_act": "gelu",
        "hidden_dropout_prob": model.dropout,
        "hidden_size": model.hidden,
        "intermediate_size": model.ffn,
        "max_position_embeddings": model.max_positions,
        "num_attention_heads": model.heads,
        "num_hidden_layers": model.layers,
        "pad_token_id": 0,
        "type_vocab_size": model.token_types,
        "vocab_size": model.vocab,
    }


def t5_config(model):
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "d_ff": model.ffn,
        "d_kv": model.head_dim,
        "d_model": model.hidden,
        "dropout_rate": model.dropout,
        "feed_forward_proj": "relu",
        "is_encoder_decoder": True,
        "num_decoder_layers": model.decoder_layers,
        "num_heads": model.heads,
        "num_layers": model.encoder_layers,
        "relative_attention_max_distance": model.max_distance,
        "relative_attention_num_buckets": model.buckets,
        "tie_word_embeddings": True,
        "vocab_size": model.vocab,
    }


def vit_config(model):
    return {
        "architectures": ["ViTForImageClassification"],
        "model_type": "vit",
        "attention_probs_dropout_prob": 0.0,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "hidden_size": model.hidden,
        "id2label": {str(index): str(index) for index in range(model.classes)},
        "image_size": model.image,
        "intermediate_size": model.ffn,
        "num_attention_heads": model.heads,
        "num_channels": 3,
        "num_hidden_layers": model.layers,
        "patch_size": model.patch,
        "qkv_bias": True,
    }


def resnet_config(model):
    wide = 4 if model.block == "bottleneck" else 1
    return {
        "architectures": ["ResNetForImageClassification"],
        "model_type": "resnet",
        "depths": list(model.blocks),
        "downsample_in_first_stage": False,
        "embedding_size": model.width,
        "hidden_act": "relu",
        "hidden_sizes": [wide * model.width * 2**stage for stage in range(4)],
        "id2label": {str(index): str(index) for index in range(model.classes)},
        "layer_type": model.block,
        "num_channels": 3,
    }


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("bert-base", bert_config),
        ("bert-large", bert_config),
        ("t5-small", t5_config),
        ("t5-11b", t5_config),
        ("vit-b16", vit_config),
        ("vit-h14", vit_config),
        ("resnet-18", resnet_config),
        ("resnet-50", resnet_config),
    ],
)
def test_a_config_gives_the_model_of_the_catalog(tmp_path, name, config):
    model = built(name)
    beside = {"image": model.image} if name.startswith("resnet") else {}
    assert load(tmp_path, config(model), **beside) == model


def test_a_decoder_as_deep_as_the_encoder_and_a_gate(tmp_path):
    config = t5_config(built("t5-base")) | {"num_decoder_layers": None, "feed_forward_proj": "gated-gelu"}
    model = load(tmp_path, config | {"tie_word_embeddings": False})
    assert (model.decoder_layers, model.activation, model.tied) == (12, "geglu", False)


BERT, T5, VIT = (
    bert_config(built("bert-base")),
    t5_config(built("t5-base")),
    vit_config(built("vit-b16")),
)
RESNET = resnet_config(built("resnet-50"))


@pytest.mark.parametrize(
    ("config", "beside", "message"),
    [
        (BERT | {"is_decoder": True}, {}, "is_decoder true is not supported; only false"),
        (BERT | {"num_attention_heads": 7}, {}, "hidden 768 / heads 7"),
        (BERT, {"kv_heads": 4}, "a model of the family 'bert' has no 'kv_heads'"),
        (BERT, {"family": "bert"}, "a config.json says itself what it is: leave 'family' out"),
        (T5 | {"feed_forward_proj": "gated-silu"}, {}, "feed_forward_proj 'gated-silu' is not supported"),
        (T5 | {"d_ff": "wide"}, {}, "ffn must be a positive integer, not 'wide'"),
        ({key: value for key, value in VIT.items() if key != "id2label"}, {}, "'classes' is missing"),
        (RESNET, {}, "'image' is missing\n    the config does not say it: write it beside 'hf'"),
        (RESNET | {"hidden_sizes": [256, 512, 1024, 1024]}, {"image": 224}, "which double from 64"),
        (RESNET | {"layer_type": "wide"}, {"image": 224}, "layer_type 'wide' is not supported"),
        (RESNET | {"depths": []}, {"image": 224}, "depths, hidden_sizes and embedding_size must be sizes"),
    ],
)
def test_a_config_that_cannot_be_used_says_why(tmp_path, config, beside, message):
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path, config, **beside)
    assert message in str(caught.value)


NAMES = (
    "llama3-8b",
    "mistral-7b",
    "mixtral-8x7b",
    "qwen3-30b-a3b",
    "deepseek-v3",
    "gpt2",
    "opt-125m",
    "mpt-7b",
)
CONFIGS = [BERT, T5, VIT, RESNET, *map(config_of, NAMES), config_of("bloom-176b")]
MORE = ("layer_types", "mlp_layer_types", "rope_parameters", "rope_scaling", "num_local_experts", "id2label")
VALUES = [
    None,
    True,
    0,
    -1,
    2,
    1.5,
    "x",
    [],
    [1],
    ["full_attention"],
    ["dense", "sparse"],
    {},
    {"type": "yarn"},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("configs")


@given(st.data())
@settings(max_examples=40)
def test_no_value_of_any_key_fails_in_another_way(folder, data):
    """A model, or an error in words."""
    config = dict(data.draw(st.sampled_from(CONFIGS)))
    keys = st.sampled_from([*config, *MORE])
    config |= data.draw(st.dictionaries(keys, st.sampled_from(VALUES), min_size=1, max_size=2))
    (folder / "config.json").write_text(json.dumps(config))
    spec = validate_data(
        {"hf": "config.json", "image": 224} if "depths" in config else {"hf": "config.json"}, ModelSpec
    )
    try:
        spec.build(folder)
    except ScenarioError as error:
        assert all(problem.message for problem in error.problems)
    spec.remarks(folder)
