"""Encoders, encoder-decoders and networks of pictures out of a Hugging Face ``config.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.document import Refused

Config = Mapping[str, Any]

BERT: Mapping[str, str | tuple[str, ...]] = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "ffn": "intermediate_size",
    "vocab": "vocab_size",
    "max_positions": "max_position_embeddings",
    "token_types": "type_vocab_size",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}
BERT_PLAIN: Mapping[str, tuple[Any, ...]] = {
    "hidden_act": ("gelu", None),
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "tie_word_embeddings": (True, None),
}

T5: Mapping[str, str | tuple[str, ...]] = {
    "encoder_layers": "num_layers",
    "decoder_layers": ("num_decoder_layers", "num_layers"),
    "hidden": "d_model",
    "heads": "num_heads",
    "head_dim": "d_kv",
    "ffn": "d_ff",
    "vocab": "vocab_size",
    "buckets": "relative_attention_num_buckets",
    "max_distance": "relative_attention_max_distance",
    "dropout": "dropout_rate",
    "attention_dropout": "dropout_rate",
    "tied": "tie_word_embeddings",
}
T5_PLAIN: Mapping[str, tuple[Any, ...]] = {"is_encoder_decoder": (True, None)}
_FEED_FORWARD = {"relu": "relu", "gelu": "gelu", "gated-gelu": "geglu"}

VIT: Mapping[str, str | tuple[str, ...]] = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "ffn": "intermediate_size",
    "image": "image_size",
    "patch": "patch_size",
    "channels": "num_channels",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}
VIT_PLAIN: Mapping[str, tuple[Any, ...]] = {"hidden_act": ("gelu", None), "qkv_bias": (True, None)}

RESNET_PLAIN: Mapping[str, tuple[Any, ...]] = {
    "hidden_act": ("relu", None),
    "downsample_in_first_stage": (False, None),
}
_WIDER = {"basic": 1, "bottleneck": 4}


def bert(config: Config) -> dict[str, Any]:
    """As the code of that model: dropout of 0.1 where its config is silent."""
    names = {"dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob"}
    return {name: 0.1 for name, key in names.items() if config.get(key) is None}


def t5(config: Config) -> dict[str, Any]:
    """The activation of the MLP, gated or not."""
    said = str(config.get("feed_forward_proj", "relu"))
    if said not in _FEED_FORWARD:
        raise Refused(f"feed_forward_proj {said!r} is not supported; only {', '.join(_FEED_FORWARD)}")
    return {"activation": _FEED_FORWARD[said]}


def vit(config: Config) -> dict[str, Any]:
    """The classes, where the config lists them."""
    return _classes(config)


def resnet(config: Config) -> dict[str, Any]:
    """Blocks and channels, which must double from stage to stage; the config says nothing of the picture."""
    depths, sizes = _sizes(config.get("depths")), _sizes(config.get("hidden_sizes"))
    width, kind = config.get("embedding_size"), str(config.get("layer_type", "bottleneck"))
    if not depths or not sizes or type(width) is not int:
        raise Refused("depths, hidden_sizes and embedding_size must be sizes: a residual network's stages")
    if kind not in _WIDER:
        raise Refused(f"layer_type {kind!r} is not supported; only {', '.join(_WIDER)}")
    doubled = [_WIDER[kind] * width * 2**stage for stage in range(len(depths))]
    if sizes != doubled:
        raise Refused(f"hidden_sizes {sizes} is not supported; only {doubled}, which double from {width}")
    version = "v1" if config.get("downsample_in_bottleneck") else "v1.5"
    channels = {"channels": config["num_channels"]} if config.get("num_channels") else {}
    stages = {"blocks": tuple(depths), "block": kind, "version": version, "width": width}
    return stages | channels | _classes(config)


def _sizes(value: Any) -> list[int]:
    """A list of sizes; empty if it is none."""
    right = isinstance(value, list) and all(type(size) is int and size > 0 for size in value)
    return value if right else []


def _classes(config: Config) -> dict[str, Any]:
    listed = config.get("id2label")
    if isinstance(listed, Mapping) and listed:
        return {"classes": len(listed)}
    return {"classes": config["num_labels"]} if config.get("num_labels") else {}
