"""Encoders, encoder-decoders and image models from a Hugging Face ``config.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.document import Refused
from simcluster.model.huggingface.model_type import Config, Keys, ModelType

BERT: Mapping[str, Keys] = {
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

T5: Mapping[str, Keys] = {
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

VIT: Mapping[str, Keys] = {
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


def t5(config: Config, usual: str = "relu") -> dict[str, Any]:
    """The activation of the MLP, gated or not."""
    said = str(config.get("feed_forward_proj", usual))
    if said not in _FEED_FORWARD:
        raise Refused(f"feed_forward_proj {said!r} is not supported; only {', '.join(_FEED_FORWARD)}")
    return {"activation": _FEED_FORWARD[said]}


def vit(config: Config) -> dict[str, Any]:
    """The classes, where the config lists them."""
    return _classes(config)


def resnet(config: Config) -> dict[str, Any]:
    """Blocks and channels, which must double from stage to stage; a config has no image size."""
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


_DISTILBERT: Mapping[str, Keys] = {
    "layers": "n_layers",
    "hidden": "dim",
    "heads": "n_heads",
    "ffn": "hidden_dim",
    "vocab": "vocab_size",
    "max_positions": "max_position_embeddings",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
}
_ROBERTA = "BERT's losses are simulated; RoBERTa does not predict next sentences"
_ROBERTA_TYPE = ModelType("bert", BERT, {"token_types": 1}, plain=BERT_PLAIN, besides=bert, remark=_ROBERTA)


def _electra(config: Config) -> Mapping[str, Any]:
    """BERT's layers; the narrower embedding of the small models is refused."""
    width, hidden = config.get("embedding_size", config.get("hidden_size")), config.get("hidden_size")
    if width != hidden:
        raise Refused(f"embedding_size {width} is not supported; only hidden_size, {hidden}")
    return bert(config)


def _dinov2(config: Config) -> Mapping[str, Any]:
    """The inner size of the MLP by ``mlp_ratio``."""
    ratio, hidden = config.get("mlp_ratio", 4), config.get("hidden_size")
    if type(ratio) is not int or type(hidden) is not int:
        raise Refused("mlp_ratio and hidden_size must be integers")
    return {"ffn": ratio * hidden, **_classes(config)}


_VIT_NEEDED = ("layers", "hidden", "heads", "image", "patch")

LIKE_BERT_AND_VIT: Mapping[str, ModelType] = {
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert"), _ROBERTA_TYPE),
    "electra": ModelType(
        "bert",
        BERT,
        plain=BERT_PLAIN,
        besides=_electra,
        remark="BERT's losses are simulated; ELECTRA detects replaced tokens",
    ),
    "distilbert": ModelType(
        "bert",
        _DISTILBERT,
        {"token_types": 1, "dropout": 0.1, "attention_dropout": 0.1},
        {"activation": ("gelu", None), "sinusoidal_pos_embds": (False, None)},
        remark="BERT's pooler and prediction of next sentences are simulated, which it does not have",
    ),
    "mt5": ModelType(
        "t5",
        T5,
        {"tied": False},
        T5_PLAIN,
        lambda config: t5(config, "gated-gelu"),
        ("encoder_layers", "hidden", "heads", "vocab"),
    ),
    "deit": ModelType(
        "vit",
        VIT,
        plain=VIT_PLAIN,
        besides=vit,
        needed=_VIT_NEEDED,
        remark="the distillation token and its head are left out",
    ),
    "dinov2": ModelType(
        "vit",
        {name: key for name, key in VIT.items() if name != "ffn"},
        plain={**VIT_PLAIN, "use_swiglu_ffn": (False, None)},
        besides=_dinov2,
        needed=_VIT_NEEDED,
        remark="classification is simulated, and LayerScale is left out",
        read_besides=("apply_layernorm", "drop_path_rate", "layerscale_value"),
    ),
}
"""Types with the structure of BERT, T5 or a vision transformer under other names."""
