"""The models of torchtitan by name and flavor (from memory of the tables in torchtitan/models)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from simcluster.errors import nearest
from simcluster.foreign.importer_interface import UserAdditions
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import CHUNKS_AS_WINDOW, Facts, read_word, states_value

_NAME, _FLAVOR = "model name", "model flavor"
read_model_name = states_value(_NAME, read_word)
read_model_flavor = states_value(_FLAVOR, read_word)

_QWEN3 = ("0.6b", "1.7b", "4b", "8b", "14b", "32b", "30b-a3b", "235b-a22b")
_CATALOG: Mapping[str, Mapping[str, str]] = {
    "llama2": {size: f"llama2-{size}" for size in ("7b", "13b", "70b")},
    "llama3": {size: f"llama3-{size}" for size in ("8b", "70b", "405b")},
    "deepseek_v3": {"16b": "deepseek-v2-lite", "236b": "deepseek-v2", "671b": "deepseek-v3"},
    "qwen3": {size: f"qwen3-{size}" for size in _QWEN3},
    "gpt_oss": {size: f"gpt-oss-{size}" for size in ("20b", "120b")},
}
"""Flavors with the dimensions of a catalog model."""

_SCOUT: Mapping[str, Any] = {
    "layers": 48,
    "hidden": 5120,
    "heads": 40,
    "kv_heads": 8,
    "vocab": 202048,
    "rope_theta": 500000.0,
    "experts": {"count": 16, "top_k": 1, "ffn": 8192, "shared": 1, "score": "sigmoid", "normalised": False},
}
_LLAMA4: Mapping[str, Mapping[str, Any]] = {
    "17bx16e": _SCOUT,
    "17bx128e": {**_SCOUT, "ffn": 16384, "experts": {**_SCOUT["experts"], "count": 128, "every": 2}},
}
"""Scout and Maverick. Only every other layer of Maverick has experts."""

_CHUNKS: Mapping[str, Any] = {"window": 8192, "full_attention_every": 4}
"""Attention of flavors that end in ``_irope``: within chunks of tokens in all layers but every fourth."""

_FLEX = re.compile(r"(.+?)_(?:flex|varlen)(?:_attn)?")
"""Flavors whose attention takes masks of documents."""

_VARIANT = re.compile(r"(?:.*\.)?(.+?)(?:_simple_fsdp|_ft|_spmd)?")
"""Experiments with a model under a name of its own: ``simple_fsdp.llama3``, ``llama3_ft``."""


def state_flavor(facts: Facts, given: UserAdditions) -> None:
    """States the model by its name and flavor; without a flavor that is known, a problem says which are."""
    if given.model is not None:
        facts.drop_effectless((_NAME, _FLAVOR), f"--model {given.model} is simulated")
        return
    flag, of_name = facts.flag(_FLAVOR), facts.flag(_NAME)
    name = _VARIANT.sub(r"\1", str(facts.get(_NAME, "llama3")).lower())
    said = str(facts.get(_FLAVOR, "debugmodel")).lower()
    if any(path in facts.settings for path in ("model", "model.use", "model.layers", "model.hf")):
        return
    if name == "llama4":
        _llama4(facts, said, flag)
        return
    if name not in _CATALOG:
        known = (*_CATALOG, "llama4")
        message = f"torchtitan's model '{name}' is not known here; known are {', '.join(known)}"
        facts.wrong(of_name, message, nearest(name, known) or "give --model with one of the catalog")
        return
    masked = _FLEX.fullmatch(said)
    flavors = _CATALOG[name]
    entry = flavors.get(masked[1] if masked else said)
    if entry is None:
        _unknown(facts, flag, flavors)
        return
    facts.say("model.use", entry, flag)
    if entry == "deepseek-v3":
        facts.say("model.mtp_layers", 0, flag)
    if masked:
        facts.remark(f"{flag}: attention goes over the whole sequence, not document by document")


def _llama4(facts: Facts, flavor: str, flag: Flag) -> None:
    """Scout or Maverick, with attention to all tokens, or within chunks where the flavor says so."""
    sizes = _LLAMA4.get(flavor.removesuffix("_irope"))
    if sizes is None:
        _unknown(facts, flag, tuple(f"{name}{end}" for name in _LLAMA4 for end in ("", "_irope")))
        return
    chunked = flavor.endswith("_irope")
    for key, value in {**sizes, **(_CHUNKS if chunked else {})}.items():
        facts.say(f"model.{key}", value, flag)
    if chunked:
        facts.remark(f"{flag}: {CHUNKS_AS_WINDOW}")


def _unknown(facts: Facts, flag: Flag, flavors: Mapping[str, str] | tuple[str, ...]) -> None:
    """The sizes of a flavor are not known, such as those of debugmodel, which releases change."""
    said = f"its sizes are not known here; known flavors are {', '.join(flavors)}"
    hint = "give --model with one of the catalog, or --set model.layers=6 and the other sizes"
    if flag.where:
        facts.wrong(flag, said, hint)
    else:
        facts.wrong(flag, f"the file names none, and that of torchtitan's default, debugmodel: {said}", hint)
