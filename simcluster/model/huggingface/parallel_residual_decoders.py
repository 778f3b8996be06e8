"""Decoders with a parallel residual: GPT-NeoX, GPT-J, CodeGen, Phi, Falcon, Command R.

Attention and MLP read the same input, each behind a norm of its own or both behind one: which, is from memory
of their code in transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.document import Refused
from simcluster.model.huggingface.config_keys import GELUS, GPT2, LLAMA, NO_BIAS, SILU
from simcluster.model.huggingface.model_type import Config, Keys, ModelType

_ROTARY: Mapping[str, Any] = {"positions": "rotary", "tied": False}
_HEAD_BIAS = "the bias of the head is left out"

_NEOX: Mapping[str, Keys] = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "ffn": "intermediate_size",
    "vocab": "vocab_size",
    "rotary_fraction": ("rotary_pct", "partial_rotary_factor", "rope_parameters.partial_rotary_factor"),
    "rope_theta": ("rotary_emb_base", "rope_theta", "rope_parameters.rope_theta"),
    "qkv_bias": "attention_bias",
    "out_bias": "attention_bias",
    "tied": "tie_word_embeddings",
    "dropout": "hidden_dropout",
    "embedding_dropout": "hidden_dropout",
    "attention_dropout": "attention_dropout",
}
_PHI: Mapping[str, Keys] = {
    **{name: key for name, key in LLAMA.items() if name != "mtp_layers"},
    "rotary_fraction": ("partial_rotary_factor", "rope_parameters.partial_rotary_factor"),
    "dropout": "resid_pdrop",
    "embedding_dropout": "embd_pdrop",
}
_GPTJ = {name: key for name, key in GPT2.items() if name != "max_positions"}
_FALCON: Mapping[str, Keys] = {
    "layers": ("num_hidden_layers", "n_layer"),
    "hidden": "hidden_size",
    "heads": ("num_attention_heads", "n_head"),
    "ffn": "ffn_hidden_size",
    "vocab": "vocab_size",
    "rope_theta": ("rope_theta", "rope_parameters.rope_theta"),
    "bias": "bias",
    "tied": "tie_word_embeddings",
    "dropout": "hidden_dropout",
    "attention_dropout": "attention_dropout",
}
_COHERE = {name: key for name, key in LLAMA.items() if name != "mtp_layers"} | {"qk_norm": "use_qk_norm"}
_COHERES_OWN: Mapping[str, Any] = {
    "norm": "layer",
    "norm_bias": False,
    "parallel": "one_norm",
    "tied": True,
}
_COHERE2_SAID = ("logit_scale", "use_embedding_sharing", "use_parallel_embedding")
_SCALED = "the scale of logits is left out"


def _neox(config: Config) -> Mapping[str, Any]:
    """Two norms, unless ``use_parallel_residual`` is off."""
    return {"parallel": "two_norms"} if config.get("use_parallel_residual", True) else {}


def _gptj(config: Config) -> Mapping[str, Any]:
    """``rotary_dim`` is the number of rotated dims of a head."""
    rotated, hidden, heads = config.get("rotary_dim", 64), config.get("n_embd"), config.get("n_head")
    if not all(type(size) is int and size > 0 for size in (rotated, hidden, heads)):
        raise Refused("rotary_dim, n_embd and n_head must be positive integers")
    return {"rotary_fraction": rotated * heads / hidden}


def _falcon(config: Config) -> Mapping[str, Any]:
    """Multi-query attention with one norm (7B), grouped with two (40B), or GPT's sequential layers."""
    newer, grouped = config.get("new_decoder_architecture"), ("num_kv_heads", "n_head_kv")
    sizes: dict[str, Any] = {"positions": "alibi" if config.get("alibi") else "rotary"}
    if newer:
        counts = [value for key in grouped if (value := config.get(key)) is not None]
        sizes["kv_heads"] = counts[0] if counts else config.get("num_attention_heads", config.get("n_head"))
    elif config.get("multi_query", True):
        sizes["kv_heads"] = 1
    if newer or config.get("parallel_attn", True):
        two = newer and config.get("num_ln_in_parallel_attn") != 1
        sizes["parallel"] = "two_norms" if two else "one_norm"
    return sizes


def _cohere2(config: Config) -> Mapping[str, Any]:
    """A window in all layers but every fourth."""
    window = config.get("sliding_window", 4096)
    every = config.get("sliding_window_pattern", config.get("layer_switch", 4))
    return {} if window is None else {"window": window, "full_attention_every": every}


_FALCON_TYPE = ModelType(
    "gpt",
    _FALCON,
    {"bias": False, "tied": True, "embedding_dropout": 0.0},
    {"activation": GELUS, "apply_residual_connection_post_layernorm": (False, None)},
    _falcon,
    read_besides=("parallel_attn", "multi_query"),
)

PARALLEL_RESIDUAL: Mapping[str, ModelType] = {
    "gpt_neox": ModelType(
        "gpt",
        _NEOX,
        {**_ROTARY, "rotary_fraction": 0.25},
        {"hidden_act": GELUS},
        _neox,
        read_besides=("use_parallel_residual",),
    ),
    "gptj": ModelType(
        "gpt",
        _GPTJ,
        {**_ROTARY, "parallel": "one_norm", "qkv_bias": False, "out_bias": False},
        {"activation_function": GELUS, "scale_attn_weights": (True, None), "rotary": (True, None)},
        _gptj,
        remark=_HEAD_BIAS,
    ),
    "codegen": ModelType(
        "gpt",
        _GPTJ,
        {**_ROTARY, "parallel": "one_norm", "qkv_bias": False, "out_bias": False},
        {"activation_function": GELUS, "scale_attn_weights": (True, None)},
        _gptj,
        remark=_HEAD_BIAS,
    ),
    "phi": ModelType(
        "gpt",
        _PHI,
        {**_ROTARY, "parallel": "one_norm", "rotary_fraction": 0.5},
        {"hidden_act": GELUS, "qk_layernorm": (False, None)},
        remark=_HEAD_BIAS,
    ),
    **dict.fromkeys(("falcon", "RefinedWeb", "RefinedWebModel"), _FALCON_TYPE),
    "cohere": ModelType(
        "llama", _COHERE, _COHERES_OWN, {**SILU, **NO_BIAS}, remark=_SCALED, read_besides=("logit_scale",)
    ),
    "cohere2": ModelType(
        "llama",
        _COHERE,
        _COHERES_OWN,
        {
            **SILU,
            **NO_BIAS,
            "position_embedding_type": ("rope_gptj", None),
            "rotary_pct": (1.0, 1, None),
            "use_gated_activation": (True, None),
            "use_parallel_block": (True, None),
        },
        _cohere2,
        read_besides=_COHERE2_SAID,
        remark=f"{_SCALED}; layers without rotary positions are simulated with them",
    ),
}
