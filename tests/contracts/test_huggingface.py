"""The config.json of a model's Hugging Face repository gives the model of the catalog, or says why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.model.spec.model_spec import ModelSpec
from tests.support.catalog_models import ENTRIES, built, counted
from tests.support.huggingface_configs import (
    CONFIGS,
    config_of,
    llama_config,
    load,
    mpt_config,
)

SHARED = [name for name in ENTRIES if name.startswith(tuple(CONFIGS))]


@pytest.mark.parametrize("name", SHARED)
def test_its_hugging_face_config_gives_the_same_model(tmp_path, name):
    """But for the longest sequence, which only a table of positions has."""
    model, found = built(name), load(tmp_path, config_of(name))
    assert replace(found, max_positions=0) == replace(model, max_positions=0)
    assert found.max_seq_len == model.max_seq_len


def test_mpt_as_mosaic_released_it(tmp_path):
    """ALiBi instead of a table, and no biases, not even in norms."""
    config = mpt_config(built("mpt-7b")) | {"vocab_size": 50432, "no_bias": True}
    config["attn_config"] = config["attn_config"] | {"alibi": True, "alibi_bias_max": 8}
    model = load(tmp_path, config)
    assert (model.positions, model.bias, model.norm_bias) == ("alibi", False, False)
    assert model.num_parameters == 6_649_286_656


def test_newer_configs_have_the_rotary_base_one_level_down(tmp_path):
    config = llama_config(built("llama3-8b")) | {"rope_theta": None}
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": 500000.0}
    assert load(tmp_path, config).rope_theta == 500000.0


SCALINGS = [
    {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192},
    {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0},
    {"type": "linear", "factor": 2.0},
    {"rope_type": "longrope", "long_factor": [1.0], "short_factor": [1.0]},
    {"type": "mrope", "mrope_section": [16, 24, 24]},
]


@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda each: each.get("type") or each.get("rope_type"))
@pytest.mark.parametrize("name", ["llama3-8b", "deepseek-v3"])
def test_scaled_rotary_angles_take_as_long_as_plain_ones(tmp_path, name, scaling):
    config = config_of(name)
    assert load(tmp_path, config | {"rope_scaling": scaling}) == load(tmp_path, config)
    newer = {"rope_theta": config["rope_theta"], **scaling}
    newer = config | {"rope_theta": None, "rope_parameters": newer}
    assert load(tmp_path, newer) == load(tmp_path, config)


@pytest.mark.parametrize("name", ["mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3"])
@pytest.mark.parametrize("key", ["num_experts", "num_local_experts", "n_routed_experts"])
def test_the_number_of_experts_under_all_its_names(tmp_path, name, key):
    config = config_of(name)
    count = built(name).experts.count
    others = ("num_experts", "num_local_experts", "n_routed_experts")
    config = {each: value for each, value in config.items() if each not in others} | {key: count}
    assert load(tmp_path, config).experts.count == count


def test_dense_layers_as_a_list_of_kinds(tmp_path):
    config = config_of("deepseek-v3")
    kinds = ["dense"] * 3 + ["sparse"] * 58
    listed = config | {"first_k_dense_replace": None, "mlp_layer_types": kinds}
    assert load(tmp_path, listed) == load(tmp_path, config)


def test_the_attention_of_every_layer_listed(tmp_path):
    full, sliding = ({"layer_types": [f"{kind}_attention"] * 32} for kind in ("full", "sliding"))
    config = config_of("mistral-7b") | {"sliding_window": 1024}
    assert load(tmp_path, config | full).window == 0
    assert load(tmp_path, config | sliding).window == 1024


def test_layers_that_predict_further_tokens_are_read_and_that_is_said(tmp_path):
    """transformers builds the model without them; who trains like that has less to do."""
    config = config_of("deepseek-v3")
    spec = validate_data({"hf": "config.json"}, ModelSpec)
    assert load(tmp_path, config).mtp_layers == 1
    (said,) = spec.remarks(tmp_path)
    assert said.endswith("without them write model.mtp_layers: 0")
    assert load(tmp_path, config | {"num_nextn_predict_layers": 0}).mtp_layers == 0
    assert spec.remarks(tmp_path) == ()


@pytest.mark.parametrize(
    ("layers", "hidden", "heads", "count"),
    [
        (12, 768, 12, 124_439_808),
        (24, 1024, 16, 354_823_168),
        (36, 1280, 20, 774_030_080),
        (48, 1600, 25, 1_557_611_200),
    ],
)
def test_gpt2_as_openai_released_it(tmp_path, layers, hidden, heads, count):
    config = {
        "model_type": "gpt2",
        "n_layer": layers,
        "n_embd": hidden,
        "n_head": heads,
        "vocab_size": 50257,
        "n_positions": 1024,
        "activation_function": "gelu_new",
    }
    assert load(tmp_path, config).num_parameters == count


def test_older_llama_configs_leave_out_what_is_usual(tmp_path):
    """Llama 1 and 2 name no key-value heads, no head size and no tie."""
    config = {
        key: value
        for key, value in config_of("llama2-7b").items()
        if key
        not in (
            "num_key_value_heads",
            "head_dim",
            "tie_word_embeddings",
            "attention_bias",
            "mlp_bias",
            "rope_theta",
        )
    }
    assert load(tmp_path, config) == load(tmp_path, config_of("llama2-7b"))


PHI_4 = config_of("llama3-8b") | {
    "model_type": "phi3",
    "hidden_size": 5120,
    "intermediate_size": 17920,
    "num_attention_heads": 40,
    "num_hidden_layers": 40,
    "num_key_value_heads": 10,
    "vocab_size": 100352,
    "sliding_window": None,
}
GLM_AIR = config_of("deepseek-v3") | {
    "model_type": "glm4_moe",
    "attention_bias": True,
    "head_dim": 128,
    "hidden_size": 4096,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "n_group": 1,
    "n_routed_experts": 128,
    "first_k_dense_replace": 1,
    "num_attention_heads": 96,
    "num_hidden_layers": 46,
    "num_key_value_heads": 8,
    "num_nextn_predict_layers": 0,
    "partial_rotary_factor": 0.5,
    "topk_group": 1,
    "use_qk_norm": False,
    "vocab_size": 151552,
}


@pytest.mark.parametrize(
    ("config", "count"),
    [(PHI_4, 14_659_507_200), (GLM_AIR, 106_852_245_504 + 45 * 128)],  # routers' biases are counted, too
    ids=["phi-4", "glm-4.5-air"],
)
def test_models_of_no_catalog_entry_have_their_published_counts(tmp_path, config, count):
    assert load(tmp_path, config).num_parameters == count


def test_part_of_a_head_is_rotated(tmp_path):
    assert load(tmp_path, GLM_AIR).rotary_fraction == 0.5
    assert (load(tmp_path, GLM_AIR).qkv_bias, load(tmp_path, GLM_AIR).qk_norm) == (True, False)
    mini = PHI_4 | {"rope_parameters": {"rope_type": "longrope", "partial_rotary_factor": 0.75}}
    assert load(tmp_path, mini).rotary_fraction == 0.75


def test_multipliers_of_granite_are_said_to_be_left_out(tmp_path):
    config = config_of("llama3-8b")
    granite = load(tmp_path, config | {"model_type": "granite", "residual_multiplier": 0.22})
    (said,) = validate_data({"hf": "config.json"}, ModelSpec).remarks(tmp_path)
    assert "multipliers" in said
    assert granite == load(tmp_path, config)


def test_what_is_written_beside_the_config_wins(tmp_path):
    model = load(tmp_path, config_of("llama3-8b"), layers=2, tied=True)
    assert (model.layers, model.tied, model.hidden) == (2, True, 4096)
    assert model.num_parameters == counted(model)


LLAMA, GPT, OPT = config_of("llama3-8b"), config_of("gpt3-125m"), config_of("opt-125m")
MISTRAL, QWEN2, QWEN3 = config_of("mistral-7b"), config_of("qwen2.5-7b"), config_of("qwen3-8b")
MIXTRAL, QWEN3_MOE = config_of("mixtral-8x7b"), config_of("qwen3-30b-a3b")
DEEPSEEK = config_of("deepseek-v3")
BLOOM, MPT = config_of("bloom-176b"), config_of("mpt-7b")


@pytest.mark.parametrize(
    ("config", "message", "hint"),
    [
        ("{", "is not JSON", ""),
        ("[1, 2]", "is not JSON object", ""),
        (
            {},
            "'model_type' is missing: this is no config.json of Hugging Face",
            "",
        ),
        (DEEPSEEK | {"index_topk": 2048}, "only for model_type deepseek_v32 and glm_moe_dsa", ""),
        (LLAMA | {"model_type": "lama"}, "model_type 'lama' is not supported", "did you mean 'llama'?"),
        (LLAMA | {"hidden_act": "gelu"}, 'hidden_act "gelu" is not supported; only "silu"', ""),
        (
            GPT | {"activation_function": "relu"},
            'activation_function "relu" is not supported; only "gelu_new"',
            "",
        ),
        (GPT | {"add_cross_attention": True}, "add_cross_attention true is not supported", ""),
        (
            {key: value for key, value in LLAMA.items() if key != "hidden_size"},
            "'hidden_size' is missing",
            "",
        ),
        ({key: value for key, value in GPT.items() if key != "n_layer"}, "'n_layer' is missing", ""),
        (
            {key: value for key, value in GPT.items() if key != "n_positions"},
            "'max_positions' is missing",
            "",
        ),
        ({key: value for key, value in LLAMA.items() if key != "intermediate_size"}, "'ffn' is missing", ""),
        (LLAMA | {"num_hidden_layers": 0}, "layers must be a positive integer, not 0", ""),
        (LLAMA | {"num_hidden_layers": True}, "layers must be a positive integer, not True", ""),
        (LLAMA | {"hidden_size": 4096.5}, "hidden must be a positive integer, not 4096.5", ""),
        (LLAMA | {"vocab_size": "many"}, "vocab must be a positive integer, not 'many'", ""),
        (LLAMA | {"num_attention_heads": None}, "'num_attention_heads' is missing", ""),
        (LLAMA | {"num_key_value_heads": 6}, "32 heads are not a multiple of 6 key-value heads", ""),
        (GPT | {"n_head": 7}, "hidden 768 / heads 7 = 109.714: give head_dim", ""),
        (LLAMA | {"rope_theta": "long"}, "rope_theta must be a positive number, not 'long'", ""),
        (LLAMA | {"rope_theta": -1}, "rope_theta must be a positive number, not -1", ""),
        (LLAMA | {"tie_word_embeddings": "no"}, "tied must be true or false, not 'no'", ""),
        (
            LLAMA | {"rope_scaling": {"rope_type": "lama3", "factor": 8.0}},
            'rope_scaling {"rope_type": "lama3", "factor": 8.0} is not supported',
            "did you mean 'llama3'?",
        ),
        (LLAMA | {"attention_dropout": 1.0}, "attention_dropout must be a number from 0 to below 1", ""),
        (GPT | {"scale_attn_weights": False}, "scale_attn_weights false is not supported; only true", ""),
        (MISTRAL | {"sliding_window": "long"}, "window must be a positive integer, not 'long'", ""),
        (
            QWEN2 | {"use_sliding_window": True, "max_window_layers": 20},
            "max_window_layers 20 is not supp",
            "",
        ),
        (MIXTRAL | {"num_local_experts": None}, "'num_local_experts' is missing", ""),
        (MIXTRAL | {"num_experts_per_tok": 9}, "top_k 9 of 1 groups x 8 = 8 experts", ""),
        (QWEN3_MOE | {"norm_topk_prob": 1}, "norm_topk_prob must be true or false, not 1", ""),
        (QWEN3_MOE | {"mlp_only_layers": [0]}, "mlp_only_layers [0] is not supported; only []", ""),
        (DEEPSEEK | {"kv_lora_rank": 0}, "kv_lora_rank must be an integer of at least 1, not 0", ""),
        (DEEPSEEK | {"topk_method": "random"}, "topk_method 'random' is not supported; only greedy", ""),
        (DEEPSEEK | {"scoring_func": "tanh"}, "scoring_func 'tanh' is not supported", ""),
        (DEEPSEEK | {"routed_scaling_factor": -1}, "routed_scaling_factor must be a positive number", ""),
        (
            DEEPSEEK | {"first_k_dense_replace": None, "mlp_layer_types": ["dense", "sparse", "dense"]},
            "mlp_layer_types is not supported; only 'dense' in the first layers",
            "",
        ),
        (
            QWEN3 | {"layer_types": ["sliding_attention", "full_attention"]},
            "layer_types sliding_attention, full_attention is not supported",
            "",
        ),
        (GLM_AIR | {"partial_rotary_factor": 2}, "rotary_fraction must be a number above 0, at most 1", ""),
        (LLAMA | {"layer_types": ["linear_attention"]}, "layer_types linear_attention is not supported", ""),
        (LLAMA | {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping 50.0 is not supported", ""),
        (LLAMA | {"model_type": ["llama"]}, "model_type '['llama']' is not supported", ""),
        (OPT | {"do_layer_norm_before": False}, "do_layer_norm_before false is not supported", ""),
        (
            OPT | {"word_embed_proj_dim": 512},
            "word_embed_proj_dim 512 is not supported; only hidden_size",
            "",
        ),
        (OPT | {"activation_function": "silu"}, 'activation_function "silu" is not supported', ""),
        (
            BLOOM | {"apply_residual_connection_post_layernorm": True},
            "apply_residual_connection_post_layernorm true is not supported; only false",
            "",
        ),
        (MPT | {"attn_config": {"qk_ln": True}}, "attn_config.qk_ln true is not supported; only false", ""),
        (MPT | {"expansion_ratio": {}}, "expansion_ratio must be a positive number, not {}", ""),
        (MPT | {"learned_pos_emb": False}, "learned_pos_emb false is not supported; only true", ""),
    ],
)
def test_a_config_that_cannot_be_used_says_why(tmp_path, config, message, hint):
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path, config)
    (problem,) = caught.value.problems
    assert problem.path == "model.hf"
    assert problem.message.startswith("config.json: ")
    assert message in problem.message
    assert hint in f"{problem.message} {problem.hint}"


def test_a_config_that_is_not_there_says_so(tmp_path):
    with pytest.raises(ScenarioError, match=r"config\.json: there is no such file"):
        validate_data({"hf": "config.json"}, ModelSpec).build(tmp_path)
