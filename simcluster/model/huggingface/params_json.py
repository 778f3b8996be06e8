"""The ``params.json`` that Meta and Mistral release with their weights, in the keys of ``config.json``.

The inner size of Meta's MLP follows from three keys as in the ``FeedForward`` of its llama repository (from
memory): two thirds of four times the hidden size, times a factor, rounded up to a multiple.
"""

from __future__ import annotations

import math
from typing import Any

from simcluster.document import Refused
from simcluster.model.huggingface.model_type import Config

_KEYS = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "rope_theta": "rope_theta",
    "sliding_window": "sliding_window",
    "tied_embeddings": "tie_word_embeddings",
}
_TOKENIZER = 32_000
"""Vocabulary of Llama 1 and 2, whose files have -1: the tokenizer's size (from memory)."""


def is_params(config: Config) -> bool:
    """Whether a JSON object is a ``params.json``, not a ``config.json``."""
    return "model_type" not in config and {"dim", "n_layers", "n_heads"} <= {*config}


def as_config(params: Config) -> dict[str, Any]:
    """The config of model type mistral or mixtral with the same sizes; Refused if sizes are no numbers.

    Mistral's layers are Llama's, with a window where the file has one.
    """
    config = {new: params[old] for old, new in _KEYS.items() if params.get(old) is not None}
    vocab = params.get("vocab_size", -1)
    config["vocab_size"] = _TOKENIZER if vocab == -1 else vocab
    config["intermediate_size"] = params.get("hidden_dim") or _inner(params)
    experts = params.get("moe")
    if isinstance(experts, dict):
        chosen = experts.get("num_experts_per_tok")
        mixed = {"num_local_experts": experts.get("num_experts"), "num_experts_per_tok": chosen}
        return {"model_type": "mixtral", **config, **mixed, **_others(params, "moe")}
    return {"model_type": "mistral", **config, **_others(params)}


def _others(params: Config, *read: str) -> dict[str, Any]:
    """Keys of the file that are not translated, so that they are reported as unknown."""
    known = {*_KEYS, *_INNER, *_IGNORED, "vocab_size", "hidden_dim", *read}
    return {key: value for key, value in params.items() if key not in known}


def _inner(params: Config) -> int:
    dim, multiple, factor = (params.get(key, usual) for key, usual in _INNER.items())
    numbers = all(isinstance(value, (int, float)) and value > 0 for value in (dim, multiple, factor or 1))
    if not numbers:
        raise Refused("dim, multiple_of and ffn_dim_multiplier must be positive numbers")
    inner = int(2 * 4 * dim / 3)
    return int(multiple * math.ceil(int(factor * inner if factor else inner) / multiple))


_INNER = {"dim": None, "multiple_of": 256, "ffn_dim_multiplier": None}
_IGNORED = ("norm_eps", "use_scaled_rope", "max_batch_size", "max_seq_len", "use_biases", "causal", "model")
