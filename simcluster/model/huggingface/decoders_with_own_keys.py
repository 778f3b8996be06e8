"""Decoders with the layers of Llama or GPT, but config keys of their own: Qwen 1, Baichuan, OLMo, EXAONE.

What their code does and their config does not say is from memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.document import Refused
from simcluster.model.huggingface.config_keys import (
    CLIPPED,
    GELUS,
    LLAMA,
    MULTIPLIED,
    MULTIPLIERS,
    NO_BIAS,
    PART_ROTATED,
    ROTARY,
    SILU,
)
from simcluster.model.huggingface.experts_and_latent_attention import latent
from simcluster.model.huggingface.model_type import Config, Keys, ModelType

_QWEN: Mapping[str, Keys] = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "head_dim": "kv_channels",
    "vocab": "vocab_size",
    "rotary_fraction": "rotary_pct",
    "rope_theta": "rotary_emb_base",
    "tied": "tie_word_embeddings",
    "embedding_dropout": "emb_dropout_prob",
    "attention_dropout": "attn_dropout_prob",
}
_OLMO: Mapping[str, Keys] = {
    "layers": "n_layers",
    "hidden": "d_model",
    "heads": "n_heads",
    "kv_heads": "n_kv_heads",
    "vocab": ("embedding_size", "vocab_size"),
    "max_positions": "max_sequence_length",
    "bias": "include_bias",
    "tied": "weight_tying",
    "dropout": "residual_dropout",
    "embedding_dropout": "embedding_dropout",
    "attention_dropout": "attention_dropout",
}
_EXAONE: Mapping[str, Keys] = {**LLAMA, "layers": "num_layers", "embedding_dropout": "embed_dropout"}
_NEO: Mapping[str, Keys] = {
    "layers": "num_layers",
    "hidden": "hidden_size",
    "heads": "num_heads",
    "ffn": "intermediate_size",
    "vocab": "vocab_size",
    "max_positions": "max_position_embeddings",
    "tied": "tie_word_embeddings",
    "dropout": "resid_dropout",
    "embedding_dropout": "embed_dropout",
    "attention_dropout": "attention_dropout",
}
_NO_WEIGHTS = "norms have no weights in the original, but do here"


def _qwen(config: Config) -> Mapping[str, Any]:
    """A gated MLP: ``intermediate_size`` is that of gate and up projection together."""
    doubled = config.get("intermediate_size")
    if type(doubled) is not int or doubled < 2 or doubled % 2:
        raise Refused(
            f"intermediate_size must be an even integer, twice the MLP's inner size, not {doubled!r}"
        )
    return {"ffn": doubled // 2, "out_bias": not config.get("no_bias", True)}


def _baichuan(config: Config) -> Mapping[str, Any]:
    """The 13B has ALiBi instead of rotary positions, and no ``max_position_embeddings``."""
    return {} if config.get("max_position_embeddings") is not None else {"positions": "alibi"}


def _internlm(config: Config) -> Mapping[str, Any]:
    """Biases in attention only."""
    return dict.fromkeys(("qkv_bias", "out_bias"), bool(config.get("bias", True)))


def _hf_olmo(config: Config) -> Mapping[str, Any]:
    """The size of the MLP before its gate, and the norm by its name."""
    inner = config.get("mlp_hidden_size")
    if inner is None:
        ratio, hidden = config.get("mlp_ratio", 4), config.get("d_model")
        if type(ratio) is not int or type(hidden) is not int:
            raise Refused("mlp_hidden_size, or mlp_ratio and d_model, must be integers")
        inner = ratio * hidden
    gated = config.get("activation_type", "swiglu") == "swiglu"
    sizes: dict[str, Any] = {
        "ffn": inner // 2 if gated else inner,
        "activation": "swiglu" if gated else "gelu",
    }
    if config.get("layer_norm_type", "default") != "rms":
        sizes |= {"norm": "layer", "norm_bias": bool(config.get("bias_for_layer_norm"))}
    if config.get("multi_query_attention"):
        sizes["kv_heads"] = 1
    if config.get("alibi"):
        sizes["positions"] = "alibi"
    elif not config.get("rope"):
        sizes["positions"] = "learned"
    return sizes


def _gpt_neo(config: Config) -> Mapping[str, Any]:
    """A window in every other layer, or in none."""
    kinds = config.get("attention_layers")
    if kinds is None:
        try:
            parts = config.get("attention_types") or []
            kinds = [kind for listed, times in parts for _ in range(times) for kind in listed]
        except (TypeError, ValueError):
            raise Refused("attention_types must be a list of [kinds, times]") from None
    if not isinstance(kinds, list) or not {*map(str, kinds)} <= {"global", "local"}:
        raise Refused("attention_layers must be a list of global and local")
    window = config.get("window_size", 256)
    if "local" not in kinds or window is None:
        return {}
    if kinds == (["global", "local"] * len(kinds))[: len(kinds)]:
        return {"window": window, "window_every": 2}
    raise Refused("attention_layers is not supported; only global and local in turn")


WITH_OWN_KEYS: Mapping[str, ModelType] = {
    "qwen": ModelType(
        "llama", _QWEN, {"qkv_bias": True, "tied": False}, {"scale_attn_weights": (True, None)}, _qwen
    ),
    "baichuan": ModelType(
        "llama",
        LLAMA,
        {"tied": False},
        SILU,
        _baichuan,
        read_besides=("z_loss_weight",),
        remark="positions are rotary with max_position_embeddings (the 7B), ALiBi without it (the 13B)",
    ),
    "internlm": ModelType("llama", LLAMA, {"tied": False}, SILU, _internlm),
    "olmo": ModelType(
        "llama",
        LLAMA,
        {"norm": "layer", "norm_bias": False, "tied": False},
        ROTARY,
        own_biases=True,
        left_out={"clip_qkv": CLIPPED},
        remark=_NO_WEIGHTS,
    ),
    "hf_olmo": ModelType(
        "llama",
        _OLMO,
        {"tied": False},
        {
            "activation_type": ("swiglu", "gelu", None),
            "attention_layer_norm": (False, None),
            "block_type": ("sequential", None),
            "layer_norm_type": ("default", "rms", "low_precision", None),
        },
        _hf_olmo,
        left_out={"clip_qkv": CLIPPED},
        remark=f"{_NO_WEIGHTS}, unless layer_norm_with_affine says so",
    ),
    "exaone": ModelType("llama", _EXAONE, {"tied": False}, {"activation_function": ("silu", None)}),
    "minicpm": ModelType(
        "llama", LLAMA, {"tied": True}, ROTARY | NO_BIAS, remark=MULTIPLIERS, read_besides=MULTIPLIED
    ),
    "minicpm3": ModelType(
        "llama",
        {name: key for name, key in LLAMA.items() if name not in ("kv_heads", "head_dim")},
        {"tied": True},
        SILU | NO_BIAS,
        lambda config: {"latent": latent(config)},
        remark=MULTIPLIERS,
        read_besides=MULTIPLIED,
    ),
    "apertus": ModelType(
        "llama",
        LLAMA,
        {"activation": "squared_relu", "qk_norm": True, "tied": False},
        {"hidden_act": ("xielu",), "post_norm": (False, None), "qk_norm": (True, None)},
        own_biases=True,
        remark="the activation xIELU is simulated as squared ReLU",
    ),
    "persimmon": ModelType(
        "gpt",
        {**LLAMA, **PART_ROTATED, "qk_norm": "qk_layernorm", "dropout": "hidden_dropout"},
        {
            "activation": "squared_relu",
            "positions": "rotary",
            "rotary_fraction": 0.5,
            "qk_norm": True,
            "tied": False,
        },
        {"hidden_act": ("relu2", None)},
    ),
    "gpt_neo": ModelType(
        "gpt",
        _NEO,
        {"qkv_bias": False},
        {"activation_function": GELUS},
        _gpt_neo,
        remark="odd layers have the window here, even ones in the original",
    ),
}
