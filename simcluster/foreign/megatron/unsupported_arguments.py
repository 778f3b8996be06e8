"""Megatron's arguments, and those of its forks, for layers and training that no scenario can say yet."""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import (
    ADAPTERS,
    LINEAR_ATTENTION,
    STATE_SPACE,
    Facts,
    Meaning,
    UnsupportedFeature,
    refuses_setting,
)

FILTERED = UnsupportedFeature(
    "convolutions in front of attention (Yuan's localised filtering)", "attention without convolutions"
)
RETRIEVAL = UnsupportedFeature("retrieval from other texts (RETRO)", "a decoder alone")

_HYBRID_MAMBA = frozenset("M")
"""Letters of a pattern of layers that stand for state-space layers; attention and MLP have others."""


def _pattern(facts: Facts, flag: Flag) -> None:
    """Kinds of all layers by letters (``M-M*-``); M are Mamba's."""
    text = "".join(flag.value) if isinstance(flag.value, list) else str(flag.value or "")
    if _HYBRID_MAMBA & {*text}:
        facts.refuse(flag, STATE_SPACE)
    else:
        facts.compare(flag, text in ("", "None"), "every layer has attention and an MLP", "off")


def _spec(facts: Facts, flag: Flag) -> None:
    """A module that lays out the layers: the usual ones, or those of Mamba."""
    text = _lower(flag)
    if "mamba" in text:
        facts.refuse(flag, STATE_SPACE)
    elif "retro" in text:
        facts.refuse(flag, RETRIEVAL)
    else:
        facts.effectless(flag, "layers are those that the other arguments say")


def _variant(facts: Facts, flag: Flag) -> None:
    """Megatron-Core's experimental attention: DeepSeek's sparse one, or linear."""
    if _lower(flag) == "dsa":
        facts.say("latent_sparse", True, flag)
    else:
        facts.refuse(flag, LINEAR_ATTENTION)


def _lower(flag: Flag) -> str:
    return (" ".join(flag.value) if isinstance(flag.value, list) else str(flag.value)).lower()


MEANINGS: Mapping[str, Meaning] = {
    "full_attention_interval": refuses_setting(LINEAR_ATTENTION, unless=(None, 1, "1")),
    "experimental_attention_variant": _variant,
    "hybrid_override_pattern": _pattern,
    "hybrid_layer_pattern": _pattern,
    "hybrid_attention_ratio": refuses_setting(STATE_SPACE, unless=(None,)),
    "hybrid_mlp_ratio": refuses_setting(STATE_SPACE, unless=(None, 0, 0.0, "0", "0.0")),
    "is_hybrid_model": refuses_setting(STATE_SPACE),
    "spec": _spec,
    "use_lf_gate": refuses_setting(FILTERED),
    "qlora": refuses_setting(ADAPTERS),
    "retro_add_retriever": refuses_setting(RETRIEVAL),
}
"""Arguments that are refused, by name without dashes."""

_BEGINNINGS: Mapping[str, UnsupportedFeature] = {
    "linear_attention": LINEAR_ATTENTION,
    "linear_conv_kernel": LINEAR_ATTENTION,
    "linear_key_head": LINEAR_ATTENTION,
    "linear_value_head": LINEAR_ATTENTION,
    "linear_num_": LINEAR_ATTENTION,
    "mamba_": STATE_SPACE,
}
"""Arguments that come in numbers."""


def unsupported_meaning(name: str) -> Meaning | None:
    """What the argument called ``name`` means if it asks for what no scenario can say; None otherwise."""
    begun = (refuses_setting(beyond) for begin, beyond in _BEGINNINGS.items() if name.startswith(begin))
    return MEANINGS.get(name) or next(begun, None)
