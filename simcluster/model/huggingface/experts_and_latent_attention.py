"""Experts and latent attention out of a Hugging Face ``config.json``, named as in the model section."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from simcluster.document import Refused
from simcluster.model.huggingface.config_keys import late_window
from simcluster.model.huggingface.model_type import get

Config = Mapping[str, Any]

_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")
"""What configs have called the number of experts; transformers 5 saves Qwen3's as num_local_experts."""

_METHODS = ("greedy", "group_limited_greedy", "noaux_tc")


def mixtral(config: Config) -> dict[str, Any]:
    """Experts in all layers; the inner size of an expert is that of the MLP."""
    window = config.get("sliding_window")
    return {"experts": plain_experts(config)} | ({} if window is None else {"window": window})


def plain_experts(config: Config) -> dict[str, Any]:
    """Experts of the size of the MLP; the router takes the best first, then softmax of these alone."""
    return {
        "count": count(config, "num_local_experts"),
        "top_k": size(config, "num_experts_per_tok"),
        "ffn": size(config, "intermediate_size"),
    }


def gpt_oss(config: Config) -> dict[str, Any]:
    """Experts in all layers; the router takes the best first, then softmax of these alone."""
    chosen = "num_experts_per_tok" if config.get("num_experts_per_tok") is not None else "experts_per_token"
    experts = {
        "count": count(config, "num_local_experts"),
        "top_k": size(config, chosen),
        "ffn": size(config, "intermediate_size"),
    }
    return {"experts": experts}


def glm4_moe(config: Config) -> dict[str, Any]:
    """DeepSeek-V3's mixture behind ordinary attention."""
    return {"experts": routed_experts(config, "noaux_tc", "sigmoid")}


def dots1(config: Config) -> dict[str, Any]:
    """As GLM-4.5; its config calls the score by the method, which is a sigmoid with a bias."""
    return glm4_moe(_with(config, {"scoring_func": "sigmoid"}))


def qwen3_moe(config: Config) -> Mapping[str, Any]:
    """Experts in all layers, without shared experts; no MLP has ``intermediate_size``."""
    return {
        "experts": {
            "count": count(config, "num_experts"),
            "top_k": size(config, "num_experts_per_tok"),
            "ffn": size(config, "moe_intermediate_size"),
            "normalised": _flag(config, "norm_topk_prob"),
            **_steps(config),
        },
        **late_window(config),
    }


def _steps(config: Config) -> dict[str, Any]:
    """``every``: experts in every N-th layer only (``decoder_sparse_step``)."""
    return {} if config.get("decoder_sparse_step", 1) == 1 else {"every": size(config, "decoder_sparse_step")}


def deepseek_v2(config: Config) -> dict[str, Any]:
    """As the code of that model: normalised weights are not scaled."""
    parts = _deepseek(config, "greedy", "softmax")
    experts = parts["experts"]
    return parts | {"experts": experts | ({"scale": 1.0} if experts["normalised"] else {})}


def deepseek_v3(config: Config) -> dict[str, Any]:
    """As the code of that model, also where its config is silent: sigmoid, groups by their best two, bias."""
    return _deepseek(config, "noaux_tc", "sigmoid")


def deepseek_v32(config: Config) -> dict[str, Any]:
    """As DeepSeek-V3, with the indexer of sparse attention (GLM-5 has the same keys)."""
    parts = deepseek_v3(config)
    sparse = {
        "heads": size(config, "index_n_heads"),
        "head_dim": size(config, "index_head_dim"),
        "tokens": size(config, "index_topk"),
    }
    return parts | {"latent": parts["latent"] | {"sparse": sparse}}


def latent(config: Config) -> dict[str, Any]:
    """Latent attention; ``v_head_dim`` defaults to hidden size by heads."""
    usual = {} if config.get("v_head_dim") is not None else {"v_head_dim": _usual_head(config)}
    config = _with(config, usual)
    return {
        "q_rank": 0 if config.get("q_lora_rank") is None else size(config, "q_lora_rank"),
        "kv_rank": size(config, "kv_lora_rank"),
        "nope_dim": size(config, "qk_nope_head_dim"),
        "rope_dim": size(config, "qk_rope_head_dim"),
        "value_dim": size(config, "v_head_dim"),
    }


def _with(config: Config, said: Mapping[str, Any]) -> Config:
    """The config with some keys replaced; a view, so that it is recorded which keys are read."""
    return ChainMap(dict(said), config)  # type: ignore[arg-type]


def _usual_head(config: Config) -> int:
    return size(config, "hidden_size") // size(config, "num_attention_heads")


def _deepseek(config: Config, method: str, score: str) -> dict[str, Any]:
    return {"experts": routed_experts(config, method, score), "latent": latent(config)}


def routed_experts(config: Config, method: str, score: str) -> dict[str, Any]:
    """DeepSeek's experts, chosen by a method and a score that hold where the config is silent."""
    method = config.get("topk_method", method)
    if method not in _METHODS:
        raise Refused(f"topk_method {method!r} is not supported; only {', '.join(_METHODS)}")
    score = config.get("scoring_func", score)
    if score not in ("softmax", "sigmoid"):
        raise Refused(f"scoring_func {score!r} is not supported; only softmax and sigmoid")
    grouped = method != "greedy" and size(config, "n_group") > 1
    steered = method == "noaux_tc"
    return {
        "count": count(config, "n_routed_experts"),
        "top_k": size(config, "num_experts_per_tok"),
        "ffn": size(config, "moe_intermediate_size"),
        "shared": size(config, "n_shared_experts", least=0),
        "dense_layers": _dense_layers(config),
        "score": score,
        "normalised": _flag(config, "norm_topk_prob"),
        "scale": number(config, "routed_scaling_factor"),
        "groups": size(config, "n_group") if grouped else 1,
        "kept_groups": size(config, "topk_group") if grouped else 1,
        "group_best": 2 if grouped and steered else 1,
        "steered": steered,
    }


def count(config: Config, usual: str) -> int:
    """The number of experts, under whichever name; ``usual`` is named where it is missing."""
    return size(config, next((key for key in _COUNTS if config.get(key) is not None), usual))


def _dense_layers(config: Config) -> int:
    """Layers before the first with experts, as a number or by a list of every layer's kind."""
    listed = config.get("mlp_layer_types")
    if config.get("first_k_dense_replace") is not None or not isinstance(listed, list):
        return size(config, "first_k_dense_replace", least=0)
    dense = next((index for index, kind in enumerate(listed) if kind != "dense"), len(listed))
    if any(kind != "sparse" for kind in listed[dense:]):
        raise Refused("mlp_layer_types is not supported; only 'dense' in the first layers, then 'sparse'")
    return dense


def _given(config: Config, key: str) -> Any:
    value = get(config, key)
    if value is None:
        raise Refused(f"'{key}' is missing")
    return value


def size(config: Config, key: str, least: int = 1) -> int:
    """An integer that a config must have; Refused without it."""
    value = _given(config, key)
    if type(value) is not int or value < least:
        raise Refused(f"{key} must be an integer of at least {least}, not {value!r}")
    return value


def _flag(config: Config, key: str) -> bool:
    value = _given(config, key)
    if not isinstance(value, bool):
        raise Refused(f"{key} must be true or false, not {value!r}")
    return value


def number(config: Config, key: str) -> float:
    """A positive number that a config must have; Refused without it."""
    value = _given(config, key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise Refused(f"{key} must be a positive number, not {value!r}")
    return float(value)


def llama4(config: Config) -> dict[str, Any]:
    """One of many experts and a shared one of the same size, by sigmoids that are not normalised."""
    return {
        "count": count(config, "num_local_experts"),
        "top_k": size(config, "num_experts_per_tok") if config.get("num_experts_per_tok") is not None else 1,
        "ffn": size(config, "intermediate_size"),
        "shared": 1,
        "score": "sigmoid",
        "normalised": False,
    }


def olmoe(config: Config) -> dict[str, Any]:
    """Experts in all layers; weights are a softmax over all experts, normalised or not."""
    return {
        "experts": {
            "count": count(config, "num_experts"),
            "top_k": size(config, "num_experts_per_tok"),
            "ffn": size(config, "intermediate_size"),
            "normalised": bool(config.get("norm_topk_prob", False)),
        }
    }


def qwen2_moe(config: Config) -> Mapping[str, Any]:
    """Experts in all layers, beside shared experts that are written as one wide MLP."""
    ffn, shared = size(config, "moe_intermediate_size"), size(config, "shared_expert_intermediate_size", 0)
    if shared % ffn:
        raise Refused(f"shared_expert_intermediate_size {shared} is no multiple of an expert's {ffn}")
    return {
        "experts": {
            "count": count(config, "num_experts"),
            "top_k": size(config, "num_experts_per_tok"),
            "ffn": ffn,
            "shared": shared // ffn,
            "normalised": bool(config.get("norm_topk_prob", False)),
            **_steps(config),
        },
        **late_window(config),
    }


def granitemoe(config: Config) -> dict[str, Any]:
    """Experts in all layers; the router takes the best first, then softmax of these alone."""
    return {"experts": plain_experts(config)}


def ernie4_5_moe(config: Config) -> dict[str, Any]:
    """Plain MLPs in the first layers, then experts up to the last; a bias steers the router."""
    layers, last = size(config, "num_hidden_layers"), config.get("moe_layer_end_index", -1)
    if config.get("moe_layer_interval", 1) != 1 or last not in (-1, None, layers - 1):
        raise Refused("moe_layer_interval or moe_layer_end_index is not supported; only experts to the end")
    return {
        "experts": {
            "count": size(config, "moe_num_experts"),
            "top_k": size(config, "moe_k"),
            "ffn": size(config, "moe_intermediate_size"),
            "shared": size(config, "moe_num_shared_experts", 0),
            "dense_layers": size(config, "moe_layer_start_index", 0),
            "steered": True,
        }
    }


def minimax_m2(config: Config) -> dict[str, Any]:
    """Experts in all layers, chosen by sigmoids and a bias; ``rotary_dim``: rotated dims of a head."""
    kinds = config.get("attn_type_list") or [1]
    if not isinstance(kinds, list) or any(kind != 1 for kind in kinds):
        raise Refused("attn_type_list is not supported; only 1: softmax attention in all layers")
    if config.get("shared_intermediate_size") not in (None, 0):
        raise Refused("shared_intermediate_size is not supported; only 0")
    experts = {
        "count": count(config, "num_local_experts"),
        "top_k": size(config, "num_experts_per_tok"),
        "ffn": size(config, "intermediate_size"),
        "score": "sigmoid",
        "steered": bool(config.get("use_routing_bias", True)),
    }
    rotated = config.get("rotary_dim")
    if rotated is None:
        return {"experts": experts}
    return {"experts": experts, "rotary_fraction": size(config, "rotary_dim") / size(config, "head_dim")}
