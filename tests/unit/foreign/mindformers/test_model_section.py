"""MindFormers' YAML: what is trained, or whether anything is: types, GLM's words, adapters, inference."""

from __future__ import annotations

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign import TranslationStatus, UserAdditions, importer, translate_file
from simcluster.scenario import Scenario
from tests.support.mindformers_files import GLM3, PREDICTION, listed, read


def of(text, *settings, model=None, hosts=None):
    given = UserAdditions("atlas-800t-a2", hosts, model, settings)
    return translate_file(importer("mindformers"), text, "m.yaml", given)


def refused(text, *settings):
    with pytest.raises(ScenarioError) as caught:
        of(text, *settings)
    return str(caught.value)


def test_glm_shares_keys_and_values_and_pads_its_vocabulary_itself():
    found = of(GLM3)
    model = found.data["model"]
    assert {key: model[key] for key in ("kv_heads", "vocab", "qkv_bias", "rotary_fraction", "ffn")} == {
        "kv_heads": 2,
        "vocab": 65024,
        "qkv_bias": True,
        "rotary_fraction": 0.5,
        "ffn": 13696,
    }
    assert not [
        each
        for each in found.untranslated
        if each.status in (TranslationStatus.UNSUPPORTED, TranslationStatus.UNKNOWN)
    ]
    assert Scenario.of(found.data).model.num_parameters == 6_243_584_000  # ChatGLM3-6B as published


def test_groups_count_only_with_their_switch_and_the_padded_vocabulary_wins():
    found = of(GLM3.replace("multi_query_attention: True", "multi_query_attention: False\n    vocab_size: 1"))
    assert found.data["model"]["vocab"] == 65024
    assert "kv_heads" not in found.data["model"]
    assert listed(found, "multi_query_group_num") == [TranslationStatus.EFFECTLESS]
    assert listed(found, "model_config.vocab_size") == [TranslationStatus.EFFECTLESS]


@pytest.mark.parametrize(
    "lines",
    [
        "    pet_config: {pet_type: ptuning2, pre_seq_len: 128}\n",
        "    pre_seq_len: 128\n",
    ],
)
def test_other_adapters_are_refused(lines):
    text = GLM3.replace("    pre_seq_len: None\n", lines)
    assert "no scenario can say adapters other" in refused(text)


def test_adapters_are_read():
    lines = "    pet_config:\n      pet_type: lora\n      lora_rank: 16\n      target_modules: '.*wq|.*wv'\n"
    lora = of(GLM3.replace("    pre_seq_len: None\n", lines)).data["training"]["lora"]
    assert lora == {"rank": 16, "alpha": 16, "targets": ["q_proj", "v_proj"]}
    strange = lines.replace("wq|", "wz|")
    assert "found 'wz'" in refused(GLM3.replace("    pre_seq_len: None\n", strange))


def test_no_adapters_are_none():
    for lines in ("    pet_config:\n", "    pet_config: {}\n", "    pet_config: {pet_type: null}\n"):
        assert of(GLM3.replace("    pre_seq_len: None\n", lines)).data == of(GLM3).data


def test_a_prediction_is_an_inference():
    said = refused(PREDICTION)
    assert "the file does not say how many tokens a prompt has" in said
    assert "--set inference.prompt=2048" in said
    found = of(PREDICTION, ("inference.prompt", "1024"), ("inference.tokens", "128"))
    assert found.data["inference"] == {
        "batch": 32,
        "prompt": 1024,
        "tokens": 128,
        "precision": "bf16",
    }
    assert "training" not in found.data
    assert "optimizer_sharding" not in found.data["parallel"]


@pytest.mark.parametrize("mode", ["eval", "predicted"])
def test_other_modes_are_refused(mode):
    said = refused(GLM3.replace("'finetune'", f"'{mode}'"))
    assert ("an evaluation" in said) == (mode == "eval")
    assert said.startswith("m.yaml:1: run_mode")


@pytest.mark.parametrize("search", ["recursive_programming", "dynamic_programming"])
def test_automatic_parallelism_is_searched(search):
    found = read(parallel__parallel_mode=2, parallel__search_mode=search)
    parallel = found.data["parallel"]
    assert (parallel["mode"], parallel["search_mode"]) == ("auto", search)
    assert parallel["mesh"] == {"pipeline": 2, "data": 2, "tensor": 4}
    assert not {"recipe", "strategies"} & set(parallel)
    assert listed(found, "use_seq_parallel") == [TranslationStatus.EFFECTLESS]
    Scenario.of(found.data)
    # Semi-automatic, the same key says nothing.
    assert "search_mode" not in read(parallel__search_mode=search).data["parallel"]


def test_a_file_for_one_device_is_said_first():
    found = of(GLM3.replace("use_parallel: True", "use_parallel: False"))
    assert listed(found, "use_parallel") == [TranslationStatus.UNSUPPORTED]


@pytest.mark.parametrize("kind", ["BertConfig", "T5Config", "ViTConfig", "WhisperConfig", "MambaConfig"])
def test_what_is_no_decoder_is_refused(kind):
    said = refused(GLM3.replace("ChatGLM2Config", kind))
    assert kind in said
    assert of(
        GLM3.replace("ChatGLM2Config", kind), model="bert-large" if kind == "BertConfig" else "llama-7b"
    )


@pytest.mark.parametrize("name", ["mtp_depth", "num_nextn_predict_layers", "mtp_num_layers"])
def test_layers_that_predict_further_tokens_are_the_models(name):
    found = read(**{f"model__model_config__{name}": 1})
    assert found.data["model"]["mtp_layers"] == 1
    assert listed(read(**{f"model__model_config__{name}": 0}), name) == [TranslationStatus.EFFECTLESS]


def test_offsets_count_layers_that_predict_further_tokens():
    """32 layers and 1 on two stages: 16 + 1 and 16, of which the last predicts."""
    found = read(model__model_config__offset=[1, 0], model__model_config__mtp_depth=1)
    assert found.data["parallel"]["schedule"]["stages"] == [17, 15]
    assert any("mtp_depth: 1, so that the last stage has 1 less here" in each for each in found.remarks)
    with pytest.raises(ScenarioError) as caught:
        read(model__model_config__offset=[1, 1], model__model_config__mtp_depth=1)
    assert "32 layers (or 33 with model.model_config.mtp_depth: 1, which offsets count)" in str(caught.value)


def test_number_formats_count_beside_a_model_of_the_catalog():
    found = of(GLM3.replace('"float32"', '"bfloat16"'), model="llama2-7b")
    assert found.data["training"]["precision"] == {"compute": "bf16", "gradients": "bf16", "master": "none"}


DENSE_MOE = """\
moe_config:
  expert_num: 1
  capacity_factor: 1.05
  aux_loss_factor: 0.05
  num_experts_chosen: 1
  group_wise_a2a: True
  shared_expert_overlap: True
"""


def test_sections_of_experts_say_nothing_where_there_are_none():
    found = of(DENSE_MOE + GLM3)
    assert found.data == of(GLM3).data
    mine = [each for each in found.untranslated if each.flag.name.startswith("moe_config")]
    assert {each.status for each in mine} == {TranslationStatus.EFFECTLESS}


@pytest.mark.parametrize(
    ("section", "key", "fate"),
    [
        ("moe_config", "group_wise_a2a", TranslationStatus.UNSUPPORTED),
        ("moe_config", "use_gmm", TranslationStatus.PROFILE),
        ("moe_config", "aux_loss_factor", TranslationStatus.EFFECTLESS),
        ("moe_config", "wonder", TranslationStatus.UNKNOWN),
        ("runner_config", "wonder", TranslationStatus.UNKNOWN),
        ("runner_wrapper", "wonder", TranslationStatus.UNKNOWN),
        ("context", "wonder", TranslationStatus.UNKNOWN),
        ("optimizer", "wonder", TranslationStatus.UNKNOWN),
    ],
)
def test_no_section_is_without_effect_as_a_whole(section, key, fate):
    found = read(moe_config__expert_num=8, **{f"{section}__{key}": True})
    assert listed(found, f"{section}.{key}") == [fate]


def test_experts_beyond_the_data_parallel_ranks_go_over_tensor_ranks_too():
    """2 x 4 ranks share 8 experts, each of them whole, while every rank holds the whole embedding."""
    found = read(
        moe_config__expert_num=8, moe_config__num_experts_chosen=2, parallel_config__expert_parallel=8
    )
    parallel = found.data["parallel"]
    assert parallel["mesh"] == {"pipeline": 2, "data": 1, "expert": 2, "tensor": 4}
    assert parallel["roles"] == {"experts": ["expert", "tensor"]}
    assert [each["match"] for each in parallel["strategies"]] == [
        "embedding.tokens",
        "*layers.*.mlp.experts.*",
    ]


@pytest.mark.parametrize(
    ("used", "first", "window", "fate"),
    [
        (False, 28, None, TranslationStatus.EFFECTLESS),
        (True, 28, 1024, TranslationStatus.UNSUPPORTED),
        (True, 0, 1024, TranslationStatus.EFFECTLESS),
        (None, None, 1024, None),
    ],
)
def test_a_window_that_is_named_but_not_used(used, first, window, fate):
    said = {"sliding_window": 1024}
    said |= {} if used is None else {"use_sliding_window": used, "max_window_layers": first}
    found = read(**{f"model__model_config__{key}": value for key, value in said.items()})
    assert found.data["model"].get("window") == window
    assert listed(found, "max_window_layers") == ([] if fate is None else [fate])
