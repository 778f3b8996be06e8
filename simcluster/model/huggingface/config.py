"""Dimensions from a Hugging Face ``config.json``.

Of the model types that the dimensions of the model section can express. What a config asks for and they
cannot express is refused by name, never left out silently.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from simcluster.document import Refused, json_object
from simcluster.errors import nearest
from simcluster.model.huggingface.keys_without_effect import has_no_effect
from simcluster.model.huggingface.model_type import Config, Keys, ModelType, ReadConfig, get
from simcluster.model.huggingface.model_types import ANGLES, EVERYWHERE, SPARSE, TYPES
from simcluster.model.huggingface.multimodal_configs import decoder_of, encoder_remark
from simcluster.model.huggingface.params_json import as_config, is_params
from simcluster.model.huggingface.refused_types import refusal


def dimensions(path: Path) -> dict[str, Any]:
    """The dimensions a config file gives, named as in the model section; Refused if it cannot be used."""
    return _dimensions(*_decoder(json_object(path)))


def _decoder(config: Config) -> tuple[ReadConfig, ModelType]:
    """The config of what is simulated, and its type; Refused if that is none of those known."""
    config = as_config(config) if is_params(config) else config
    if "model_type" not in config:
        raise Refused("'model_type' is missing: this is no config.json of Hugging Face, nor a params.json")
    alone = decoder_of(config)
    config = ReadConfig(config if alone is None else alone)
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in TYPES:
        why, hint = refusal(str(kind)) or ("", nearest(str(kind), TYPES))
        raise Refused(f"model_type '{kind}' is not supported" + (f": {why}" if why else ""), hint=hint)
    return config, TYPES[kind]


def _dimensions(config: Config, model_type: ModelType) -> dict[str, Any]:
    kind = config["model_type"]
    for key, accepted in {**EVERYWHERE, **model_type.plain}.items():
        known = key in model_type.read_besides or key in model_type.left_out
        if not known and get(config, key) not in accepted:
            said = json.dumps(get(config, key))
            raise Refused(f"{key} {said} is not supported; only {json.dumps(accepted[0])}")
    if config.get("index_topk") is not None and kind not in SPARSE:
        raise Refused(f"index_topk is not supported; only for model_type {' and '.join(SPARSE)}")
    _refuse_unknown_angles(config)
    missing = [
        _names(model_type.sizes[name])[0]
        for name in model_type.needed
        if _first(config, model_type.sizes[name]) is None and name not in model_type.usual
    ]
    if missing:
        raise Refused(f"'{missing[0]}' is missing")
    sizes = (
        dict(model_type.usual) | dict(_present(config, model_type.sizes)) | dict(model_type.besides(config))
    )
    sizes |= _biases(config) if model_type.own_biases else {}
    _attend(config, sizes)
    for name, value in sizes.items():
        wanted = _wanted(name, value)
        if wanted:
            raise Refused(f"{name} must be {wanted}, not {value!r}")
    return {"family": model_type.family, **sizes}


def _biases(config: Config) -> dict[str, Any]:
    """Biases of attention's projections, and of the MLP's."""
    attention, mlp = config.get("attention_bias"), config.get("mlp_bias")
    said = dict.fromkeys(("qkv_bias", "out_bias"), attention) if attention or mlp else {}
    said = {name: bool(value) if value is None else value for name, value in said.items()}
    return said | ({"bias": mlp} if mlp else {})


def remarks(path: Path) -> tuple[str, ...]:
    """What a user should know of what the config says and transformers, or the model here, leaves out.

    A config that cannot be used has none: building its model says why.
    """
    try:
        whole = json_object(path)
        config, known = _decoder(whole)
        _dimensions(config, known)
    except Refused:
        return ()
    remarks = [text for text in (encoder_remark(whole), known.remark) if text]
    for key, (plain, simulated) in known.left_out.items():
        if (value := get(config, key)) not in plain:
            remarks.append(f"{key} {json.dumps(value)}: {simulated}")
    if is_params(whole) and "tied_embeddings" not in whole:
        remarks.append("a params.json does not say whether the head is the embedding: model.tied does")
    if config.get("quantization_config"):
        remarks.append("quantization_config: training.precision says in which numbers is computed")
    if layers := config.get("num_nextn_predict_layers"):
        said = f"num_nextn_predict_layers {layers}: trained as well, which transformers does not"
        remarks.append(f"{said}; without them write model.mtp_layers: 0")
    if unknown := _unknown(config, known):
        listed = ", ".join(_shown(key, config[key]) for key in unknown)
        remarks.append(f"keys that are unknown here, and may change the model: {listed}")
    return (*remarks, *_other_heads(whole))


def _unknown(config: ReadConfig, known: ModelType) -> list[str]:
    """Keys that nothing has read, and that are not known to have no effect."""
    seen = config.read_keys | {*known.read_besides}
    return sorted(key for key in config if key not in seen and not has_no_effect(key, dict.get(config, key)))


def _other_heads(config: Config) -> tuple[str, ...]:
    """Of a config of a model that classifies what it reads."""
    listed = config.get("architectures")
    for name in listed if isinstance(listed, list) else ():
        if str(name).endswith(_HEADS):
            return (f"{name}: its head is small; here the model has the head of its pre-training",)
    return ()


def _shown(key: str, value: Any) -> str:
    text = f"{key}: {json.dumps(value)}"
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


_WIDTH = 60
_HEADS = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
    "RewardModel",
)


def _refuse_unknown_angles(config: Config) -> None:
    """Scaled rotary angles take as long as plain ones, whatever the rule, if it is one that is known."""
    for key in ("rope_scaling", "rope_parameters"):
        said = config.get(key)
        kind = said if not isinstance(said, Mapping) else said.get("rope_type", said.get("type"))
        if kind is not None and kind not in ANGLES:
            message = f"{key} {json.dumps(said)} is not supported; no such scaling of rotary angles is known"
            raise Refused(message, hint=nearest(str(kind), ANGLES))


_EVERY_OTHER = ["sliding_attention", "full_attention"]


def _attend(config: Config, found: dict[str, Any]) -> None:
    """Sets the window by the attention of every layer, where the config lists it; Refused if they differ."""
    listed = config.get("layer_types")
    if not isinstance(listed, list) or not listed:
        return
    window = config.get("sliding_window", found.get("window"))
    if "chunked_attention" in listed:  # as a window: see the type's remark
        window = found.get("window")
        listed = ["sliding_attention" if kind == "chunked_attention" else kind for kind in listed]
    kinds = list(dict.fromkeys(map(str, listed)))
    every = listed.index("full_attention") + 1 if "full_attention" in listed else 0
    pattern = ["sliding_attention"] * (every - 1) + ["full_attention"]
    if kinds == ["full_attention"]:
        windows = {}
    elif kinds == ["sliding_attention"] and window:
        windows = {"window": window}
    elif window and listed == (_EVERY_OTHER * len(listed))[: len(listed)]:
        windows = {"window": window, "window_every": len(_EVERY_OTHER)}
    elif window and every and listed == (pattern * len(listed))[: len(listed)]:
        windows = {"window": window, "full_attention_every": every}
    else:
        message = f"layer_types {', '.join(kinds)} is not supported; only full_attention in all layers"
        raise Refused(f"{message}, or sliding_attention in all, or in all but every so many")
    for name in ("window", "window_every", "full_attention_every"):
        found.pop(name, None)
    found.update(windows)


def _present(config: Config, sizes: Mapping[str, Keys]) -> Iterator[tuple[str, Any]]:
    for name, keys in sizes.items():
        value = _first(config, keys)
        if value is not None:
            yield name, value


def _names(keys: Keys) -> tuple[str, ...]:
    return (keys,) if isinstance(keys, str) else keys


def _first(config: Config, keys: Keys) -> Any:
    return next((value for value in (get(config, key) for key in _names(keys)) if value is not None), None)


_FLAGS = (
    "tied",
    "bias",
    "norm_bias",
    "qkv_bias",
    "out_bias",
    "qk_norm",
    "embedding_norm",
    "post_norms",
    "capped_logits",
)

_CHECKED = ("parallel", "positions", "norm", "activation", "experts", "latent", "blocks", "block", "version")
"""Dimensions that are made of several keys, which have been looked at."""


def _wanted(name: str, value: Any) -> str:
    """The form that a dimension must have, if ``value`` has another one."""
    if name in _FLAGS:
        return "" if isinstance(value, bool) else "true or false"
    if name in _CHECKED:
        return ""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if name == "mtp_layers":
        return "" if isinstance(value, int) and number and value >= 0 else "an integer from 0"
    if name.endswith("dropout"):
        return "" if number and 0 <= value < 1 else "a number from 0 to below 1"
    if name == "rotary_fraction":
        return "" if number and 0 < value <= 1 else "a number above 0, at most 1"
    if name == "rope_theta":
        return "" if number and value > 0 else "a positive number"
    return "" if number and value > 0 and isinstance(value, int) else "a positive integer"
