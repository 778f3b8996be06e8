"""Every model of the catalog has the published number of parameters, and its graph runs on one device."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.model import Region, Role, Transformer
from simcluster.model.spec import ModelSpec
from simcluster.plan.differentiate import differentiate
from simcluster.values import Source
from simcluster.work import DType

ENTRIES = sorted(ModelSpec.entries())

# Counts that others print, beside what the catalog says of itself.
PUBLISHED = {
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
    "llama3.2-1b": 1_235_814_400,
    "llama3.2-3b": 3_212_749_824,
    "gpt3-125m": 125_226_240,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "bloom-176b": 176_247_271_424,
    "mpt-7b": 6_658_859_008,
    "mistral-7b": 7_241_732_096,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-8b": 8_190_735_360,
    "opt-175b": 174_604_468_224,
    "nemotron4-15b": 15_628_775_424,
    "gpt3-175b": 174_604_259_328,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v2": 235_741_434_880,
    "deepseek-v3": 671_026_419_200,
    "kimi-k2": 1_026_408_232_448,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-3b": 2_851_598_336,
    "t5-11b": 11_307_321_344,
    "vit-b16": 86_567_656,
    "vit-l16": 304_326_632,
    "vit-h14": 632_045_800,
}

ACTIVE = {
    "mixtral-8x7b": 12_879_925_248,
    "mixtral-8x22b": 39_152_031_744,
    "qwen3-30b-a3b": 3_353_032_704,
    "qwen3-235b-a22b": 22_190_763_520,
    "deepseek-v2-lite": 2_661_150_208,
    "deepseek-v2": 21_375_800_320,
    "deepseek-v3": 37_552_282_624,
    "kimi-k2": 32_861_477_888,
}
"""What a token meets of them, both tables of the vocabulary included."""

UNTRAINED = "mlp.route.bias"
"""A parameter that only decides something."""


def built(name, **changes):
    return validate_data({"use": name, **changes}, ModelSpec).build(None)


DECODERS = [name for name in ENTRIES if isinstance(built(name), Transformer)]


def counted(model) -> int:
    """The closed form: attention, MLP and norms of every layer, tables and the last norm."""
    h, kv, query = model.hidden, model.kv_heads * model.head_dim, model.heads * model.head_dim
    gated = model.activation in ("swiglu", "geglu")
    attention = 2 * h * query + 2 * h * kv
    mlp = (3 if gated else 2) * h * model.ffn
    per_norm = 2 if model.norm == "layer" and model.norm_bias else 1
    norms = model.layers * (2 * h + (2 * model.head_dim if model.qk_norm else 0))
    norms += h + (h if model.embedding_norm else 0)
    biases = query + 2 * kv if model.bias or model.qkv_bias else 0
    biases += h + (2 if gated else 1) * model.ffn + h if model.bias else 0
    tables = model.vocab * h * (1 if model.tied else 2)
    tables += (model.max_positions + model.position_offset) * h if model.positions == "learned" else 0
    tables += model.max_positions * h if model.query_layer else 0
    dense = model.layers
    if model.latent:
        latent = model.latent
        short = latent.q_rank or h
        attention = short * model.heads * latent.head_dim + (h * short + short if latent.q_rank else 0)
        attention += h * (latent.kv_rank + latent.rope_dim) + latent.kv_rank
        attention += latent.kv_rank * model.heads * (latent.nope_dim + latent.value_dim)
        attention += model.heads * latent.value_dim * h
    mixtures = 0
    if model.experts:
        experts = model.experts
        dense = experts.dense_layers
        mixture = (experts.count + experts.shared) * 3 * h * experts.ffn + h * experts.count
        mixtures = (model.layers - dense) * (mixture + (experts.count if experts.steered else 0))
    return model.layers * (attention + biases) + dense * mlp + mixtures + per_norm * norms + tables


@pytest.mark.parametrize("name", ENTRIES)
def test_its_parameters_are_as_many_as_published(name):
    spec = ModelSpec.load(name)
    assert spec.parameters is not None, f"{name}.yaml: write the published number of parameters"
    model = built(name)
    assert model.num_parameters == spec.parameters.value
    assert model.num_parameters == PUBLISHED.get(name, model.num_parameters)


@pytest.mark.parametrize("name", ENTRIES)
def test_its_active_parameters_are_as_many_as_published(name):
    model = built(name)
    mixed = isinstance(model, Transformer) and model.experts is not None
    assert model.num_active_parameters == (ACTIVE[name] if mixed else model.num_parameters)


@pytest.mark.parametrize("name", DECODERS)
def test_parameters_of_a_decoder_follow_the_closed_form(name):
    model = built(name)
    assert model.num_parameters == counted(model)


@pytest.mark.parametrize("name", ENTRIES)
def test_its_figures_and_dimensions_have_sources(name):
    spec = ModelSpec.sourced(name)
    assert spec.title
    assert spec.source


@pytest.mark.parametrize("name", ENTRIES)
def test_its_graph_is_whole(name):
    """Every value is made once before it is read, and every parameter gets a gradient."""
    model = built(name)
    graph = differentiate(model.graph(2, model.sequence or 16, DType.BF16, 32), DType.FP32)
    layers = [each.name for each in graph.instances if "layers." in each.name]
    assert len(layers) == model.num_layers
    assert graph.instances[-1].name == "head"
    crossing: set[str] = set()
    for instance in graph.instances:
        block = graph.block_of(instance)
        assert set(instance.inputs) <= crossing
        crossing.update(instance.output(value) for value in block.outputs)
        known = {
            *block.inputs,
            *block.parameters,
            *block.feeds,
            *(block.gradients[out] for out in block.outputs),
        }
        for node in block.nodes:
            assert set(node.inputs) <= known, f"{block.name}.{node.name}"
            added = (Role.ACCUMULATOR, Role.SUM)
            fresh = {out for out in node.outputs if block.values[out].role not in added}
            assert not fresh & known
            known.update(node.outputs)
        assert set(block.gradients) >= {*block.parameters, *block.inputs} - {UNTRAINED}
        assert known == set(block.values)


@pytest.mark.parametrize("name", ENTRIES)
def test_its_small_form_has_a_finite_loss(name):
    model = built(name).shrunk(2, lambda dim: 2, padded=False)
    length = model.sequence or 4
    graph = model.graph(2, length, DType.FP32, 2 * length)
    source = Source(0, np.dtype("float64"))
    crossing = {}
    for instance in graph.instances:
        block = graph.block_of(instance)
        values = {inner: crossing[outer] for inner, outer in zip(block.inputs, instance.inputs, strict=True)}
        for value in block.parameters:
            values[value] = source.parameter(f"{instance.name}.{value}", block.values[value].type)
        for value in block.feeds:
            kind = block.values[value]
            values[value] = source.feed(value, kind.type, 0, 0, kind.below)
            assert kind.type.dtype.is_float or values[value].max() < kind.below
        for node in block.nodes:
            made = node.operator.evaluate([values[each] for each in node.inputs], Region({}))
            for value, array in zip(node.outputs, made, strict=True):
                assert array.shape == block.values[value].type.shape
                values[value] = array
        crossing.update({instance.output(out): values[out] for out in block.outputs})
    loss = float(values[block.loss])
    assert 0 < loss < 100


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        *(
            ("megatron-1.7b", "1.7"),
            ("megatron-3.6b", "3.6"),
            ("megatron-7.5b", "7.5"),
            ("megatron-18b", "18.4"),
        ),
        *(("megatron-39b", "39.1"), ("megatron-76b", "76.1"), ("megatron-145b", "145.6")),
        *(("megatron-310b", "310.1"), ("megatron-530b", "529.6"), ("megatron-1t", "1008.0")),
        *(("turing-nlg-530b", "529.6"), ("turing-nlg-17b", "17.2"), ("megatron-8.3b", "8.3")),
        *(("megatron-22b", "22"), ("megatron-175b", "175"), ("megatron-5.9b", "5.9")),
        *(("megatron-91b", "91"), ("megatron-162b", "162")),
        *(("pangu-alpha-2.6b", "2.6"), ("pangu-alpha-200b", "207")),
        *(("qwen2.5-0.5b", "0.49"), ("qwen2.5-72b", "72.7"), ("qwen3-0.6b", "0.6"), ("qwen3-32b", "32.8")),
        *(("llama-7b", "6.7"), ("llama-13b", "13.0"), ("llama-33b", "32.5"), ("llama-65b", "65")),
        *(("mpt-1b", "1.316"), ("mpt-30b", "29.975"), ("nemotron4-340b", "341.0")),
    ],
)
def test_counts_as_their_authors_round_them(name, printed):
    digits = len(printed.partition(".")[2])
    assert f"{built(name).num_parameters / 1e9:.{digits}f}" == printed


# -- Hugging Face configs -------------------------------------------------------------------------------


def config_of(name):
    """The catalog entry as the ``config.json`` of its repository would say it."""
    model = built(name)
    return next(write for kind, write in CONFIGS.items() if name.startswith(kind))(model)


def llama_config(model, kind="llama"):
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": kind,
        "attention_bias": False,
        "hidden_act": "silu",
        "hidden_size": model.hidden,
        "intermediate_size": model.ffn,
        "max_position_embeddings": 8192,
        "mlp_bias": False,
        "num_attention_heads": model.heads,
        "num_hidden_layers": model.layers,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "rms_norm_eps": 1e-05,
        "rope_scaling": None,
        "rope_theta": model.rope_theta,
        "tie_word_embeddings": model.tied,
        "torch_dtype": "bfloat16",
        "vocab_size": model.vocab,
    }


def mistral_config(model):
    return llama_config(model, "mistral") | {"sliding_window": model.window}


def qwen2_config(model):
    config = llama_config(model, "qwen2") | {"use_sliding_window": False, "sliding_window": 32768}
    return {key: value for key, value in config.items() if key != "attention_bias"}


def qwen3_config(model):
    return llama_config(model, "qwen3") | {"use_sliding_window": False, "sliding_window": None}


def gpt2_config(model):
    return {
        "activation_function": "gelu_new",
        "architectures": ["GPT2LMHeadModel"],
        "attn_pdrop": model.attention_dropout,
        "embd_pdrop": model.embedding_dropout,
        "model_type": "gpt2",
        "n_embd": model.hidden,
        "n_head": model.heads,
        "n_inner": None,
        "n_layer": model.layers,
        "n_positions": model.max_positions,
        "resid_pdrop": model.dropout,
        "vocab_size": model.vocab,
    }


def opt_config(model):
    return {
        "model_type": "opt",
        "activation_function": "relu",
        "attention_dropout": model.attention_dropout,
        "do_layer_norm_before": True,
        "dropout": model.dropout,
        "ffn_dim": model.ffn,
        "hidden_size": model.hidden,
        "layerdrop": 0.0,
        "max_position_embeddings": model.max_positions,
        "num_attention_heads": model.heads,
        "num_hidden_layers": model.layers,
        "vocab_size": model.vocab,
        "word_embed_proj_dim": model.hidden,
    }


def bloom_config(model):
    return {
        "model_type": "bloom",
        "apply_residual_connection_post_layernorm": False,
        "attention_dropout": 0.0,
        "hidden_dropout": 0.0,
        "n_embed": model.hidden,
        "n_layer": model.layers,
        "num_attention_heads": model.heads,
        "vocab_size": model.vocab,
    }


def mpt_config(model):
    return {
        "model_type": "mpt",
        "attn_config": {"alibi": False, "attn_type": "multihead_attention", "attn_pdrop": 0, "qk_ln": False},
        "d_model": model.hidden,
        "emb_pdrop": 0,
        "expansion_ratio": 4,
        "learned_pos_emb": True,
        "max_seq_len": model.max_positions,
        "n_heads": model.heads,
        "n_layers": model.layers,
        "no_bias": False,
        "norm_type": "low_precision_layernorm",
        "resid_pdrop": 0,
        "vocab_size": model.vocab,
    }


def mixtral_config(model):
    sizes = {"num_local_experts": model.experts.count, "num_experts_per_tok": model.experts.top_k}
    sizes |= {"intermediate_size": model.experts.ffn, "router_jitter_noise": 0.0, "sliding_window": None}
    return llama_config(model, "mixtral") | sizes


def qwen3_moe_config(model):
    experts = model.experts
    sizes = {"num_experts": experts.count, "num_experts_per_tok": experts.top_k, "mlp_only_layers": []}
    sizes |= {"moe_intermediate_size": experts.ffn, "norm_topk_prob": True, "decoder_sparse_step": 1}
    return qwen3_config(model) | sizes | {"model_type": "qwen3_moe", "intermediate_size": 6144}


def deepseek_config(model):
    experts, latent = model.experts, model.latent
    kind = "deepseek_v3" if experts.steered else "deepseek_v2"
    method = "noaux_tc" if experts.steered else "group_limited_greedy" if experts.groups > 1 else "greedy"
    return llama_config(model, kind) | {
        "num_key_value_heads": model.heads,
        "head_dim": None,
        "q_lora_rank": latent.q_rank or None,
        "kv_lora_rank": latent.kv_rank,
        "qk_nope_head_dim": latent.nope_dim,
        "qk_rope_head_dim": latent.rope_dim,
        "v_head_dim": latent.value_dim,
        "n_routed_experts": experts.count,
        "n_shared_experts": experts.shared,
        "num_experts_per_tok": experts.top_k,
        "moe_intermediate_size": experts.ffn,
        "first_k_dense_replace": experts.dense_layers,
        "moe_layer_freq": 1,
        "n_group": experts.groups,
        "topk_group": experts.kept_groups,
        "topk_method": method,
        "routed_scaling_factor": experts.scale,
        "norm_topk_prob": experts.normalised,
        "scoring_func": experts.score,
        "num_nextn_predict_layers": 0,
        "aux_loss_alpha": 0.001,
    }


def kimi_config(model):
    return deepseek_config(model) | {"model_type": "kimi_k2"}


CONFIGS = {
    "mixtral": mixtral_config,
    "qwen3-30b-a3b": qwen3_moe_config,
    "qwen3-235b-a22b": qwen3_moe_config,
    "deepseek": deepseek_config,
    "kimi": kimi_config,
    "llama": llama_config,
    "mistral": mistral_config,
    "qwen2.5": qwen2_config,
    "qwen3": qwen3_config,
    "gpt2": gpt2_config,
    "gpt3": gpt2_config,
    "opt": opt_config,
    "bloom": bloom_config,
    "mpt": mpt_config,
}
SHARED = [name for name in ENTRIES if name.startswith(tuple(CONFIGS))]


def load(tmp_path, config, **beside):
    text = config if isinstance(config, str) else json.dumps(config)
    (tmp_path / "config.json").write_text(text)
    return validate_data({"hf": "config.json", **beside}, ModelSpec).build(tmp_path)


@pytest.mark.parametrize("name", SHARED)
def test_its_hugging_face_config_gives_the_same_model(tmp_path, name):
    """But for the longest sequence, which only a table of positions has."""
    model, found = built(name), load(tmp_path, config_of(name))
    assert replace(found, max_positions=0) == replace(model, max_positions=0)
    assert found.longest == model.longest


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
        ("{", "is no JSON", ""),
        ("[1, 2]", "is no JSON object", ""),
        (
            {},
            "model_type 'None' is not supported",
            "known: bloom, deepseek_v2, deepseek_v3, gpt2, kimi_k2, llama, mistral, mixtral, mpt, opt, "
            "qwen2, qwen3, qwen3_moe",
        ),
        (LLAMA | {"model_type": "lama"}, "model_type 'lama' is not supported", "did you mean 'llama'?"),
        (LLAMA | {"attention_bias": True}, "attention_bias true is not supported; only false", ""),
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
        (LLAMA | {"num_key_value_heads": 6}, "32 heads are no multiple of 6 key-value heads", ""),
        (GPT | {"n_head": 7}, "hidden 768 / heads 7 = 109.714: give head_dim", ""),
        (LLAMA | {"rope_theta": "long"}, "rope_theta must be a positive number, not 'long'", ""),
        (LLAMA | {"rope_theta": -1}, "rope_theta must be a positive number, not -1", ""),
        (LLAMA | {"tie_word_embeddings": "no"}, "tied must be true or false, not 'no'", ""),
        (
            LLAMA | {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
            'rope_scaling {"rope_type": "llama3", "factor": 8.0} is not supported; only null',
            "without the key, times and memory are the same",
        ),
        (LLAMA | {"attention_dropout": 1.0}, "attention_dropout must be a number from 0 to below 1", ""),
        (GPT | {"scale_attn_weights": False}, "scale_attn_weights false is not supported; only true", ""),
        (MISTRAL | {"sliding_window": "long"}, "window must be a positive integer, not 'long'", ""),
        (QWEN2 | {"use_sliding_window": True}, "use_sliding_window true is not supported; only false", ""),
        (QWEN3 | {"attention_bias": True}, "attention_bias true is not supported; only false", ""),
        (MIXTRAL | {"num_local_experts": None}, "'num_local_experts' is missing", ""),
        (MIXTRAL | {"num_experts_per_tok": 9}, "top_k 9 of 1 groups x 8 = 8 experts", ""),
        (QWEN3_MOE | {"norm_topk_prob": 1}, "norm_topk_prob must be true or false, not 1", ""),
        (QWEN3_MOE | {"mlp_only_layers": [0]}, "mlp_only_layers [0] is not supported; only []", ""),
        (DEEPSEEK | {"kv_lora_rank": 0}, "kv_lora_rank must be an integer of at least 1, not 0", ""),
        (DEEPSEEK | {"topk_method": "random"}, "topk_method 'random' is not supported; only greedy", ""),
        (DEEPSEEK | {"scoring_func": "tanh"}, "scoring_func 'tanh' is not supported", ""),
        (DEEPSEEK | {"routed_scaling_factor": -1}, "routed_scaling_factor must be a positive number", ""),
        (
            DEEPSEEK | {"num_nextn_predict_layers": 1},
            "num_nextn_predict_layers 1 is not supported; only 0",
            "without multi-token prediction",
        ),
        (OPT | {"do_layer_norm_before": False}, "do_layer_norm_before false is not supported", ""),
        (
            OPT | {"word_embed_proj_dim": 512},
            "word_embed_proj_dim 512 is not supported; only hidden_size",
            "",
        ),
        (OPT | {"activation_function": "gelu"}, 'activation_function "gelu" is not supported', ""),
        (
            BLOOM | {"apply_residual_connection_post_layernorm": True},
            "apply_residual_connection_post_layernorm true is not supported; only false",
            "",
        ),
        (MPT | {"attn_config": {"qk_ln": True}}, "attn_config.qk_ln true is not supported; only false", ""),
        (MPT | {"attn_config": {"clip_qkv": 6}}, "attn_config.clip_qkv 6 is not supported; only null", ""),
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
    with pytest.raises(ScenarioError, match=r"config\.json: cannot be read: No such file or directory"):
        validate_data({"hf": "config.json"}, ModelSpec).build(tmp_path)
