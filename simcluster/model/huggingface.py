"""Dimensions from a Hugging Face ``config.json``.

Model types whose mathematics the dimensions of the model section can say; what a config says besides and they
cannot is refused by name, never left out in silence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simcluster.document import Refused
from simcluster.errors import nearest
from simcluster.model import huggingface_mixtures as mixtures

Config = Mapping[str, Any]
Keys = str | tuple[str, ...]
"""Key of a config, dotted where it lies deeper, or the several names it has had: the first found counts."""


def _nothing(config: Config) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class _Type:
    """A model type.

    ``sizes``: dimension -> its key. ``usual``: what the type does unless its config says otherwise.
    ``plain``: keys that change the mathematics in a way no dimension says, with the values that leave it
    alone. ``besides``: dimensions that follow from several keys.
    """

    family: str
    sizes: Mapping[str, Keys]
    usual: Mapping[str, Any] = field(default_factory=dict)
    plain: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    besides: Callable[[Config], Mapping[str, Any]] = _nothing


_LLAMA: Mapping[str, Keys] = {
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
}
_MIXED = {name: key for name, key in _LLAMA.items() if name != "ffn"}
_DEEPSEEK = {name: key for name, key in _LLAMA.items() if name not in ("kv_heads", "head_dim")}
_GPT2: Mapping[str, Keys] = {
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

_ROTARY = {
    "hidden_act": ("silu", None),
    "rope_scaling": (None,),
    "rope_parameters.rope_type": ("default", None),
    "partial_rotary_factor": (1.0, 1, None),
}
_NO_BIAS = {"attention_bias": (False, None), "mlp_bias": (False, None)}
_ONE_WINDOW = {"use_sliding_window": (False, None)}

_EVERY_LAYER = {"decoder_sparse_step": (1, None), "mlp_only_layers": ([], None)}
_LATENT = {"moe_layer_freq": (1, None), "num_nextn_predict_layers": (0, None)}


def _window(config: Config) -> Mapping[str, Any]:
    window = config.get("sliding_window")
    return {} if window is None else {"window": window}


def _mpt(config: Config) -> Mapping[str, Any]:
    """ALiBi takes the place of the position table; ``no_bias`` drops the biases of norms too."""
    found: dict[str, Any] = {}
    if _get(config, "attn_config.alibi"):
        found["positions"] = "alibi"
    if config.get("no_bias"):
        found |= {"bias": False, "norm_bias": False}
    ratio, hidden = config.get("expansion_ratio"), config.get("d_model")
    if ratio is not None and isinstance(hidden, int):
        found["ffn"] = ratio * hidden
    return found


def _opt(config: Config) -> Mapping[str, Any]:
    width, hidden = config.get("word_embed_proj_dim"), config.get("hidden_size")
    if width not in (None, hidden):
        raise Refused(f"word_embed_proj_dim {width} is not supported; only hidden_size, {hidden}")
    return {}


_PDROP = {"dropout": 0.1, "embedding_dropout": 0.1, "attention_dropout": 0.1}

_TYPES = {
    "llama": _Type("llama", _LLAMA, plain=_ROTARY | _NO_BIAS),
    "mistral": _Type("llama", _LLAMA, plain=_ROTARY | _NO_BIAS, besides=_window),
    "qwen2": _Type("llama", _LLAMA, {"qkv_bias": True}, _ROTARY | _ONE_WINDOW),
    "qwen3": _Type("llama", _LLAMA, {"qk_norm": True}, _ROTARY | _NO_BIAS | _ONE_WINDOW),
    "mixtral": _Type(
        "llama", _MIXED, plain=_ROTARY | {"router_jitter_noise": (0.0, 0, None)}, besides=mixtures.mixtral
    ),
    "qwen3_moe": _Type(
        "llama",
        _MIXED,
        {"qk_norm": True},
        _ROTARY | _NO_BIAS | _ONE_WINDOW | _EVERY_LAYER,
        mixtures.qwen3_moe,
    ),
    "deepseek_v2": _Type("llama", _DEEPSEEK, {}, _ROTARY | _NO_BIAS | _LATENT, mixtures.deepseek_v2),
    "deepseek_v3": _Type("llama", _DEEPSEEK, {}, _ROTARY | _NO_BIAS | _LATENT, mixtures.deepseek_v3),
    "kimi_k2": _Type("llama", _DEEPSEEK, {}, _ROTARY | _NO_BIAS | _LATENT, mixtures.deepseek_v3),
    "gpt2": _Type(
        "gpt",
        _GPT2,
        _PDROP,
        {
            "activation_function": ("gelu_new", None),
            "scale_attn_weights": (True, None),
            "scale_attn_by_inverse_layer_idx": (False, None),
            "add_cross_attention": (False, None),
        },
    ),
    "opt": _Type(
        "gpt",
        _OPT,
        {"activation": "relu", "position_offset": 2, "dropout": 0.1, "embedding_dropout": 0.0},
        {
            "activation_function": ("relu", None),
            "do_layer_norm_before": (True, None),
            "_remove_final_layer_norm": (False, None),
            "enable_bias": (True, None),
            "layer_norm_elementwise_affine": (True, None),
            "layerdrop": (0.0, 0, None),
        },
        _opt,
    ),
    "bloom": _Type(
        "gpt",
        _BLOOM,
        {"positions": "alibi", "embedding_norm": True, "embedding_dropout": 0.0},
        {"apply_residual_connection_post_layernorm": (False, None)},
    ),
    "mpt": _Type(
        "gpt",
        _MPT,
        {},
        {
            "norm_type": ("low_precision_layernorm", None),
            "logit_scale": (None,),
            "attn_config.attn_type": ("multihead_attention", None),
            "attn_config.qk_ln": (False, None),
            "attn_config.clip_qkv": (None,),
            "attn_config.prefix_lm": (False, None),
            "attn_config.softmax_scale": (None,),
            "attn_config.alibi_bias_max": (8, None),
            "attn_config.rope": (False, None),
            "attn_config.sliding_window_size": (-1, None),
            "learned_pos_emb": (True, None),
            "ffn_config.ffn_type": ("mptmlp", None),
        },
        _mpt,
    ),
}

_HINTS = {
    "rope_scaling": (
        "scaled angles take as long as plain ones: without the key, times and memory are the same"
    ),
    "num_nextn_predict_layers": "without the key, the model is built without multi-token prediction",
}


def dimensions(path: Path) -> dict[str, Any]:
    """The dimensions a config file gives, named as in the model section; Refused if it cannot be used."""
    config = _read(path)
    kind = config.get("model_type")
    if kind not in _TYPES:
        raise Refused(f"model_type '{kind}' is not supported", hint=nearest(str(kind), _TYPES))
    found_type = _TYPES[kind]
    for key, accepted in found_type.plain.items():
        if _get(config, key) not in accepted:
            said = json.dumps(_get(config, key))
            message = f"{key} {said} is not supported; only {json.dumps(accepted[0])}"
            raise Refused(message, hint=_HINTS.get(key, ""))
    missing = [
        _names(found_type.sizes[name])[0]
        for name in ("layers", "hidden", "heads", "vocab")
        if _first(config, found_type.sizes[name]) is None
    ]
    if missing:
        raise Refused(f"'{missing[0]}' is missing")
    found = (
        dict(found_type.usual) | dict(_present(config, found_type.sizes)) | dict(found_type.besides(config))
    )
    for name, value in found.items():
        wanted = _wanted(name, value)
        if wanted:
            raise Refused(f"{name} must be {wanted}, not {value!r}")
    return {"family": found_type.family, **found}


def _present(config: Config, sizes: Mapping[str, Keys]) -> Iterator[tuple[str, Any]]:
    for name, keys in sizes.items():
        value = _first(config, keys)
        if value is not None:
            yield name, value


def _names(keys: Keys) -> tuple[str, ...]:
    return (keys,) if isinstance(keys, str) else keys


def _first(config: Config, keys: Keys) -> Any:
    return next((value for value in (_get(config, key) for key in _names(keys)) if value is not None), None)


def _get(config: Config, key: str) -> Any:
    """The value of a dotted key, None if it is not there."""
    head, _, rest = key.partition(".")
    value = config.get(head)
    if not rest:
        return value
    return _get(value, rest) if isinstance(value, Mapping) else None


_FLAGS = ("tied", "bias", "norm_bias", "qkv_bias", "qk_norm", "embedding_norm")


def _wanted(name: str, value: Any) -> str:
    """The form that a dimension must have, if ``value`` has another one."""
    if name in _FLAGS:
        return "" if isinstance(value, bool) else "true or false"
    if name in ("positions", "activation", "experts", "latent"):
        return ""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if name.endswith("dropout"):
        return "" if number and 0 <= value < 1 else "a number from 0 to below 1"
    if name == "rope_theta":
        return "" if number and value > 0 else "a positive number"
    return "" if number and value > 0 and isinstance(value, int) else "a positive integer"


def _read(path: Path) -> Config:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refused(f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Refused(f"is no JSON: {error}") from error
    if not isinstance(config, dict):
        raise Refused("is no JSON object")
    return config
