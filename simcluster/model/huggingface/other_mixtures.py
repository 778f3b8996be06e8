"""Mixtures of experts whose configs have keys of their own: DBRX, Grok, Hunyuan, Phi-3.5 MoE, Ling.

What their code does and their config does not say is from memory.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from simcluster.document import Refused
from simcluster.model.huggingface import experts_and_latent_attention as mixtures
from simcluster.model.huggingface.config_keys import (
    CLIPPED,
    LLAMA,
    MIXED,
    NO_BIAS,
    PART_ROTATED,
    ROTARY,
    SILU,
    sliding_window,
)
from simcluster.model.huggingface.model_type import Config, Keys, ModelType

_DBRX: Mapping[str, Keys] = {
    "layers": "n_layers",
    "hidden": "d_model",
    "heads": "n_heads",
    "kv_heads": "attn_config.kv_n_heads",
    "rope_theta": "attn_config.rope_theta",
    "vocab": "vocab_size",
    "tied": "tie_word_embeddings",
    "dropout": "resid_pdrop",
    "embedding_dropout": "emb_pdrop",
    "attention_dropout": "attn_config.attn_pdrop",
}
_LING: Mapping[str, Keys] = {
    **LLAMA,
    **PART_ROTATED,
    "bias": "use_bias",
    "out_bias": "use_bias",
    "qkv_bias": "use_qkv_bias",
    "qk_norm": "use_qk_norm",
    "dropout": "output_dropout",
    "embedding_dropout": "embedding_dropout",
}


_HUNYUAN = (
    "capacity_factor",
    "cla_share_factor",
    "qk_norm",
    "route_scale",
    "use_rotary_pos_emb",
)
"""Hunyuan's keys that are not read: their usual values are simulated."""


def _deepseek(config: Config) -> Mapping[str, Any]:
    """DeepSeekMoE: experts as in DeepSeek-V2, multi-head attention."""
    config = _with_defaults(config, {"norm_topk_prob": False, "routed_scaling_factor": 1.0})
    return {"experts": mixtures.routed_experts(config, "greedy", "softmax")}


def _with_defaults(config: Config, usual: Mapping[str, Any]) -> Config:
    """The config with defaults of keys that it lacks; a view, so that it is recorded which keys are read."""
    return ChainMap(config, dict(usual))  # type: ignore[arg-type]


def _size_or(config: Config, key: str, usual: int) -> int:
    """An integer of a config, ``usual`` where it has none."""
    return usual if config.get(key) is None else mixtures.size(config, key, min(usual, 1))


def _dbrx(config: Config) -> Mapping[str, Any]:
    names = {"count": "moe_num_experts", "top_k": "moe_top_k", "ffn": "ffn_hidden_size"}
    return {"experts": {name: mixtures.size(config, f"ffn_config.{key}") for name, key in names.items()}}


def _grok(config: Config) -> Mapping[str, Any]:
    return {"experts": mixtures.plain_experts(config)}


def _phimoe(config: Config) -> Mapping[str, Any]:
    return {"experts": mixtures.plain_experts(config), **sliding_window(config)}


def _hunyuan(config: Config) -> Mapping[str, Any]:
    """Sizes are numbers, or lists with one number per layer; a shared expert is as wide as a dense MLP."""
    ffn, wide = (
        _same_in_all_layers(config, "moe_intermediate_size"),
        mixtures.size(config, "intermediate_size"),
    )
    shared = (
        _same_in_all_layers(config, "num_shared_expert") * wide
        if config.get("use_mixed_mlp_moe", True)
        else 0
    )
    if shared % ffn:
        raise Refused(f"intermediate_size {wide} of shared experts is no multiple of an expert's {ffn}")
    if config.get("moe_layer_num_skipped") not in (None, 0):
        raise Refused("moe_layer_num_skipped is not supported; only 0")
    experts = {
        "count": mixtures.count(config, "num_experts"),
        "top_k": _same_in_all_layers(config, "moe_topk"),
        "ffn": ffn,
        "shared": shared // ffn,
    }
    return {"experts": experts}


def _same_in_all_layers(config: Config, key: str) -> int:
    """A size that all layers have in common; Refused if they differ."""
    value = config.get(key)
    if isinstance(value, list):
        if len(set(map(str, value))) != 1:
            raise Refused(f"{key} is not supported; only the same in all layers")
        config = {key: value[0]}
    return mixtures.size(config, key)


def _ling(config: Config) -> Mapping[str, Any]:
    """Plain softmax routing, or with groups, sigmoids and a bias in version 2."""
    ffn = mixtures.size(config, "moe_intermediate_size")
    shared = _size_or(config, "num_shared_experts", 0) * _size_or(
        config, "moe_shared_expert_intermediate_size", ffn
    )
    if shared % ffn:
        raise Refused(f"moe_shared_expert_intermediate_size is no multiple of an expert's {ffn}")
    groups = _size_or(config, "n_group", 1)
    score = config.get("score_function") or "softmax"
    if score not in ("softmax", "sigmoid"):
        raise Refused(f"score_function {score!r} is not supported; only softmax and sigmoid")
    steered = bool(config.get("moe_router_enable_expert_bias"))
    experts = {
        "count": mixtures.count(config, "num_experts"),
        "top_k": mixtures.size(config, "num_experts_per_tok"),
        "ffn": ffn,
        "shared": shared // ffn,
        "dense_layers": _size_or(config, "first_k_dense_replace", 0),
        "score": score,
        "normalised": bool(config.get("norm_topk_prob", True)),
        "scale": mixtures.number(
            _with_defaults(config, {"routed_scaling_factor": 1.0}), "routed_scaling_factor"
        ),
        "groups": groups,
        "kept_groups": _size_or(config, "topk_group", 1),
        "group_best": 2 if groups > 1 and steered else 1,
        "steered": steered,
    }
    return {"experts": experts}


OTHER_MIXTURES: Mapping[str, ModelType] = {
    "deepseek": ModelType(
        "llama", LLAMA, {"tied": False}, ROTARY | {"moe_layer_freq": (1, None)}, _deepseek, own_biases=True
    ),
    "dbrx": ModelType(
        "llama",
        _DBRX,
        {"norm": "layer", "norm_bias": False, "tied": False},
        {},
        _dbrx,
        left_out={"attn_config.clip_qkv": CLIPPED},
    ),
    "grok-1": ModelType(
        "llama",
        MIXED,
        {"activation": "geglu", "post_norms": True, "tied": True},
        besides=_grok,
        remark="the multipliers of embeddings and logits and the cap on attention scores are left out",
        read_besides=(
            "attn_output_multiplier",
            "embedding_multiplier_scale",
            "max_attn_value",
            "output_multiplier_scale",
        ),
    ),
    "hunyuan_v1_moe": ModelType(
        "llama",
        {**LLAMA, "head_dim": ("head_dim", "attention_head_dim"), "qk_norm": ("use_qk_norm", "qk_norm")},
        {"qk_norm": True},
        {**ROTARY, **NO_BIAS, "use_cla": (False, None), "norm_type": ("rms", None)},
        _hunyuan,
        read_besides=_HUNYUAN,
    ),
    "phimoe": ModelType(
        "llama",
        MIXED | {"dropout": "hidden_dropout"},
        {"norm": "layer", "tied": False},
        SILU,
        _phimoe,
        own_biases=True,
        left_out={
            "lm_head_bias": ((False, None), "the head has no bias here"),
            "input_jitter_noise": ((0, 0.0, None), "the router's input has no noise here"),
            "router_jitter_noise": ((0, 0.0, None), "the router's scores have no noise here"),
        },
    ),
    "bailing_moe": ModelType(
        "llama", _LING, {"tied": False}, SILU, _ling, read_besides=("max_window_layers",)
    ),
    "bailing_moe_v2": ModelType(
        "llama", _LING, {"tied": False, "qk_norm": True}, SILU | {"use_rmsnorm": (True, None)}, _ling
    ),
}
