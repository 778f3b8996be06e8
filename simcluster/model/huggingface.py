"""Dimensions from a Hugging Face ``config.json``: model types ``llama`` and ``gpt2``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simcluster.document import Refused
from simcluster.errors import nearest

_LLAMA = {
    "num_hidden_layers": "layers",
    "hidden_size": "hidden",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "head_dim": "head_dim",
    "intermediate_size": "ffn",
    "vocab_size": "vocab",
    "max_position_embeddings": "max_positions",
    "rope_theta": "rope_theta",
    "tie_word_embeddings": "tied",
}
_GPT2 = {
    "n_layer": "layers",
    "n_embd": "hidden",
    "n_head": "heads",
    "n_inner": "ffn",
    "vocab_size": "vocab",
    "n_positions": "max_positions",
    "tie_word_embeddings": "tied",
}
_TYPES = {"llama": ("llama", _LLAMA), "gpt2": ("gpt", _GPT2)}

# What changes the mathematics in a way that no dimension here says, and the value that leaves it alone.
_PLAIN = {
    "attention_bias": (False, None),
    "mlp_bias": (False, None),
    "hidden_act": ("silu", None),
    "activation_function": ("gelu_new", None),
    "scale_attn_by_inverse_layer_idx": (False, None),
    "add_cross_attention": (False, None),
}


def dimensions(path: Path) -> dict[str, Any]:
    """The dimensions a config file gives, named as in the model section; Refused if it cannot be used."""
    config = _read(path)
    kind = config.get("model_type")
    if kind not in _TYPES:
        raise Refused(f"model_type '{kind}' is not supported", hint=nearest(str(kind), _TYPES))
    family, table = _TYPES[kind]
    for key, accepted in _PLAIN.items():
        if config.get(key) not in accepted:
            raise Refused(f"{key} {json.dumps(config[key])} is not supported; only {json.dumps(accepted[0])}")
    missing = [
        key
        for key, name in table.items()
        if name in ("layers", "hidden", "heads", "vocab") and config.get(key) is None
    ]
    if missing:
        raise Refused(f"'{missing[0]}' is missing")
    found = {name: config[key] for key, name in table.items() if config.get(key) is not None}
    for name, value in found.items():
        wanted = _wanted(name, value)
        if wanted:
            raise Refused(f"{name} must be {wanted}, not {value!r}")
    return {"family": family, **found}


def _wanted(name: str, value: Any) -> str:
    """The form that a dimension must have, if ``value`` has another one."""
    if name == "tied":
        return "" if isinstance(value, bool) else "true or false"
    positive = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
    if name == "rope_theta":
        return "" if positive else "a positive number"
    return "" if positive and isinstance(value, int) else "a positive integer"


def _read(path: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refused(f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Refused(f"is no JSON: {error}") from error
    if not isinstance(config, dict):
        raise Refused("is no JSON object")
    return config
