"""Keys of Hugging Face configs that many model types share, and values that change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.document import Refused
from simcluster.model.huggingface.model_type import Keys

LLAMA: Mapping[str, Keys] = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "ffn": "intermediate_size",
    "vocab": "vocab_size",
    "max_positions": "max_position_embeddings",
    "rope_theta": ("rope_theta", "rope_parameters.rope_theta"),
    "tied": "tie_word_embeddings",
    "attention_dropout": "attention_dropout",
    "mtp_layers": "num_nextn_predict_layers",
}
"""Dimensions by the keys of Llama's config, which most decoders have taken over."""

MIXED = {name: key for name, key in LLAMA.items() if name != "ffn"}
"""The same of mixtures of experts, whose experts have sizes of their own."""

GPT2: Mapping[str, Keys] = {
    "layers": "n_layer",
    "hidden": "n_embd",
    "heads": "n_head",
    "ffn": "n_inner",
    "vocab": "vocab_size",
    "max_positions": "n_positions",
    "tied": "tie_word_embeddings",
    "dropout": "resid_pdrop",
    "embedding_dropout": "embd_pdrop",
    "attention_dropout": "attn_pdrop",
}
"""Dimensions by the keys of GPT-2's config."""

SILU: dict[str, tuple[Any, ...]] = {"hidden_act": ("silu", None)}
ROTARY: dict[str, tuple[Any, ...]] = {
    **SILU,
    "partial_rotary_factor": (1.0, 1, None),
    "rope_parameters.partial_rotary_factor": (1.0, 1, None),
}
NO_BIAS: dict[str, tuple[Any, ...]] = {"attention_bias": (False, None), "mlp_bias": (False, None)}
PART_ROTATED: Mapping[str, Keys] = {
    "rotary_fraction": ("partial_rotary_factor", "rope_parameters.partial_rotary_factor")
}

GELUS = ("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", None)
"""Names of one activation, exact and approximated: the same time and memory."""

CLIPPED = ((None,), "queries, keys and values are not clipped here")
"""The remark on ``clip_qkv``, which clamps queries, keys and values."""

MULTIPLIED = (
    "attention_multiplier",
    "dim_model_base",
    "embedding_multiplier",
    "logit_scale",
    "logits_scaling",
    "residual_multiplier",
    "scale_depth",
    "scale_emb",
)
"""Keys of scalar factors on whole tensors, which cost next to nothing."""

MULTIPLIERS = "the multipliers of embeddings, attention, residuals and logits are left out"


def sliding_window(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The window of sliding attention in all layers, if there is one."""
    window = config.get("sliding_window")
    return {} if window is None else {"window": window}


def late_window(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Qwen's window, which layers have from ``max_window_layers`` on if ``use_sliding_window`` is set."""
    layers, first = config.get("num_hidden_layers"), config.get("max_window_layers", 0)
    windows = sliding_window(config)
    if not config.get("use_sliding_window") or isinstance(config.get("layer_types"), list):
        return {}
    if type(first) is not int or type(layers) is not int or 0 < first < layers:
        message = f"max_window_layers {first!r} is not supported with use_sliding_window"
        raise Refused(f"{message}; only 0, a window in all layers, or all of them")
    return {} if first >= layers else windows
