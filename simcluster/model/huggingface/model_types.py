"""The model types of Hugging Face configs: the key of every dimension, and keys that are refused.

Names are those of the ``config.json`` files and of the configuration classes behind them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from simcluster.document import Refused
from simcluster.model.huggingface import encoders_and_vision as structures
from simcluster.model.huggingface import experts_and_latent_attention as mixtures
from simcluster.model.huggingface.config_keys import (
    CLIPPED,
    GELUS,
    GPT2,
    LLAMA,
    MIXED,
    MULTIPLIED,
    MULTIPLIERS,
    NO_BIAS,
    PART_ROTATED,
    ROTARY,
    SILU,
    late_window,
    sliding_window,
)
from simcluster.model.huggingface.decoders_with_own_keys import WITH_OWN_KEYS
from simcluster.model.huggingface.further_decoders import FURTHER
from simcluster.model.huggingface.model_type import Config, Keys, ModelType, get
from simcluster.model.huggingface.other_mixtures import OTHER_MIXTURES
from simcluster.model.huggingface.parallel_residual_decoders import PARALLEL_RESIDUAL

_DEEPSEEK = {name: key for name, key in LLAMA.items() if name not in ("kv_heads", "head_dim")}
_OPT: Mapping[str, Keys] = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "ffn": "ffn_dim",
    "vocab": "vocab_size",
    "max_positions": "max_position_embeddings",
    "tied": "tie_word_embeddings",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
}
_BLOOM: Mapping[str, Keys] = {
    "layers": ("n_layer", "num_hidden_layers"),
    "hidden": ("hidden_size", "n_embed"),
    "heads": ("n_head", "num_attention_heads"),
    "vocab": "vocab_size",
    "tied": "tie_word_embeddings",
    "dropout": "hidden_dropout",
    "attention_dropout": "attention_dropout",
}
_MPT: Mapping[str, Keys] = {
    "layers": "n_layers",
    "hidden": "d_model",
    "heads": "n_heads",
    "vocab": "vocab_size",
    "max_positions": "max_seq_len",
    "tied": "tie_word_embeddings",
    "dropout": "resid_pdrop",
    "embedding_dropout": "emb_pdrop",
    "attention_dropout": "attn_config.attn_pdrop",
}

_EVERY_LAYER: dict[str, tuple[Any, ...]] = {"mlp_only_layers": ([], None)}
_LATENT: dict[str, tuple[Any, ...]] = {"moe_layer_freq": (1, None)}


def _mpt(config: Config) -> Mapping[str, Any]:
    """ALiBi takes the place of the position table; ``no_bias`` drops the biases of norms too."""
    sizes: dict[str, Any] = {}
    if get(config, "attn_config.alibi"):
        sizes["positions"] = "alibi"
    if config.get("no_bias"):
        sizes |= {"bias": False, "norm_bias": False}
    ratio, hidden = config.get("expansion_ratio"), config.get("d_model")
    if ratio is not None and type(ratio) not in (int, float):
        raise Refused(f"expansion_ratio must be a positive number, not {ratio!r}")
    if ratio is not None and isinstance(hidden, int):
        sizes["ffn"] = ratio * hidden
    return sizes


def _opt(config: Config) -> Mapping[str, Any]:
    width, hidden = config.get("word_embed_proj_dim"), config.get("hidden_size")
    if width not in (None, hidden):
        raise Refused(f"word_embed_proj_dim {width} is not supported; only hidden_size, {hidden}")
    activation = config.get("activation_function", "relu")
    if activation not in ("relu", *GELUS):
        raise Refused(f"activation_function {json.dumps(activation)} is not supported; only relu and gelu")
    biases = {} if config.get("enable_bias", True) else {"bias": False, "norm_bias": False}
    return {"activation": "relu" if activation == "relu" else "gelu", **biases}


_PHI3 = {**LLAMA, **PART_ROTATED, "dropout": "resid_pdrop", "embedding_dropout": "embd_pdrop"}
_GLM4_MOE = {**LLAMA, **PART_ROTATED, "qkv_bias": "attention_bias", "qk_norm": "use_qk_norm"}
_SEED = {**LLAMA, "qkv_bias": "attention_bias", "dropout": "residual_dropout"}

_PDROP = {"dropout": 0.1, "embedding_dropout": 0.1, "attention_dropout": 0.1}

TYPES = {
    "llama": ModelType("llama", LLAMA, plain=ROTARY, own_biases=True),
    "mistral": ModelType("llama", LLAMA, plain=ROTARY | NO_BIAS, besides=sliding_window),
    "qwen2": ModelType("llama", LLAMA, {"qkv_bias": True}, ROTARY, late_window),
    "qwen3": ModelType("llama", LLAMA, {"qk_norm": True}, ROTARY, late_window, own_biases=True),
    "mixtral": ModelType(
        "llama", MIXED, plain=ROTARY | {"router_jitter_noise": (0.0, 0, None)}, besides=mixtures.mixtral
    ),
    "qwen3_moe": ModelType(
        "llama",
        MIXED,
        {"qk_norm": True},
        ROTARY | _EVERY_LAYER,
        mixtures.qwen3_moe,
        own_biases=True,
    ),
    "deepseek_v2": ModelType("llama", _DEEPSEEK, {}, ROTARY | NO_BIAS | _LATENT, mixtures.deepseek_v2),
    "deepseek_v3": ModelType("llama", _DEEPSEEK, {}, ROTARY | NO_BIAS | _LATENT, mixtures.deepseek_v3),
    "deepseek_v32": ModelType("llama", _DEEPSEEK, {}, ROTARY | NO_BIAS | _LATENT, mixtures.deepseek_v32),
    "glm_moe_dsa": ModelType("llama", _DEEPSEEK, {}, ROTARY | NO_BIAS | _LATENT, mixtures.deepseek_v32),
    "glm4_moe_lite": ModelType("llama", _DEEPSEEK, {}, ROTARY | NO_BIAS | _LATENT, mixtures.deepseek_v3),
    "kimi_k2": ModelType("llama", _DEEPSEEK, {}, ROTARY | NO_BIAS | _LATENT, mixtures.deepseek_v3),
    "gpt_oss": ModelType(
        "llama",
        MIXED,
        {"bias": True, "activation": "clamped_swiglu"},
        ROTARY | {"attention_bias": (True, None), "swiglu_limit": (7.0, 7, None)},
        mixtures.gpt_oss,
        remark="attention sinks, a number for each head, are left out",
    ),
    "glm4_moe": ModelType("llama", _GLM4_MOE, plain=SILU, besides=mixtures.glm4_moe),
    "phi3": ModelType("llama", _PHI3, plain=SILU | NO_BIAS, besides=sliding_window),
    "granite": ModelType(
        "llama", LLAMA, plain=ROTARY, remark=MULTIPLIERS, read_besides=MULTIPLIED, own_biases=True
    ),
    "seed_oss": ModelType(
        "llama",
        _SEED,
        {"qkv_bias": True},
        ROTARY | {"attention_out_bias": (False, None)} | {"mlp_bias": (False, None)},
    ),
    "gpt2": ModelType(
        "gpt",
        GPT2,
        _PDROP,
        {
            "activation_function": ("gelu_new", *GELUS),
            "scale_attn_weights": (True, None),
            "scale_attn_by_inverse_layer_idx": (False, None),
            "add_cross_attention": (False, None),
        },
    ),
    "opt": ModelType(
        "gpt",
        _OPT,
        {"position_offset": 2, "dropout": 0.1, "embedding_dropout": 0.0},
        {
            "do_layer_norm_before": (True, None),
            "_remove_final_layer_norm": (False, None),
            "layerdrop": (0.0, 0, None),
        },
        _opt,
        left_out={"layer_norm_elementwise_affine": ((True, None), "norms have weights here")},
    ),
    "bloom": ModelType(
        "gpt",
        _BLOOM,
        {"positions": "alibi", "embedding_norm": True, "embedding_dropout": 0.0},
        {"apply_residual_connection_post_layernorm": (False, None)},
    ),
    "mpt": ModelType(
        "gpt",
        _MPT,
        {},
        {
            "norm_type": ("low_precision_layernorm", None),
            "logit_scale": (None,),
            "embedding_fraction": (1.0, 1, None),
            "attn_config.attn_type": ("multihead_attention", None),
            "attn_config.qk_ln": (False, None),
            "attn_config.prefix_lm": (False, None),
            "attn_config.softmax_scale": (None,),
            "attn_config.rope": (False, None),
            "attn_config.sliding_window_size": (-1, None),
            "learned_pos_emb": (True, None),
            "ffn_config.ffn_type": ("mptmlp", None),
        },
        _mpt,
        left_out={"attn_config.clip_qkv": CLIPPED},
    ),
    "bert": ModelType("bert", structures.BERT, plain=structures.BERT_PLAIN, besides=structures.bert),
    "t5": ModelType(
        "t5",
        structures.T5,
        plain=structures.T5_PLAIN,
        besides=structures.t5,
        needed=("encoder_layers", "hidden", "heads", "vocab"),
    ),
    "vit": ModelType(
        "vit",
        structures.VIT,
        plain=structures.VIT_PLAIN,
        besides=structures.vit,
        needed=("layers", "hidden", "heads", "image", "patch"),
    ),
    "resnet": ModelType("resnet", {}, plain=structures.RESNET_PLAIN, besides=structures.resnet, needed=()),
    **FURTHER,
    **PARALLEL_RESIDUAL,
    **OTHER_MIXTURES,
    **WITH_OWN_KEYS,
    **structures.LIKE_BERT_AND_VIT,
}

SPARSE = ("deepseek_v32", "glm_moe_dsa")
"""Types with an indexer that chooses tokens (``index_topk``)."""

EVERYWHERE: Mapping[str, tuple[Any, ...]] = {
    "attention_chunk_size": (None,),
    "attn_logit_softcapping": (None,),
    "attn_output_gate": (False, None),
    "final_logit_softcapping": (None,),
    "full_attention_interval": (1, None),
    "linear_num_value_heads": (None,),
    "mamba_d_state": (None,),
    "no_rope_layers": ([], None),
    "parallel_attn": (False, None),
    "use_parallel_residual": (False, None),
}
"""Keys that change the mathematics of any type, with the values that leave it alone."""

ANGLES = ("default", "linear", "dynamic", "yarn", "longrope", "su", "llama3", "mrope")
"""Rules by which rotary angles are scaled: other numbers in the same table, the same time and memory."""
