"""MindFormers' settings of what leaves the device, in the words of a scenario (``mindspore.md`` 7.4, 7.7).

``memory_offload`` is the automatic mode, ``optimizer.swap`` states in the host's memory, ``swap_config`` the
activations of layers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from simcluster.foreign.translation import Facts, Meaning, as_written, read_word, states_value, switch

_AUTO, _MOST = "memory_offload", "max_device_memory"
_SWAP, _LAYERS, _OPERATORS, _AHEAD = "swap", "swapped layers", "swapped operators", "swap prefetch"
_STATES = "states swapped"
_SIZE = re.compile(r"\s*([0-9.]+)\s*GB\s*", re.IGNORECASE)
"""MindSpore's gigabytes have 2^30 bytes."""


MEANINGS: Mapping[str, Meaning] = {
    "context.memory_offload": states_value(_AUTO, as_written),
    "context.max_device_memory": states_value(_MOST, read_word),
    "optimizer.swap": switch(_STATES),
    "swap_config.swap": switch(_SWAP),
    "swap_config.layer_swap": states_value(_LAYERS, as_written),
    "swap_config.default_prefetch": states_value(_AHEAD, as_written),
}


def offload_meaning(name: str) -> Meaning | None:
    """What a setting about offload means; None if it is about something else."""
    return (
        states_value(_OPERATORS, as_written) if name.startswith("swap_config.op_swap") else MEANINGS.get(name)
    )


def state_mindformers_offload(facts: Facts) -> None:
    """States what is offloaded, now that all settings are read."""
    automatic = facts.get(_AUTO) is True or str(facts.get(_AUTO)).upper() == "ON"
    limit = _limit(facts, automatic)
    if automatic:
        facts.say("parallel.offload", {"auto": True, **limit}, facts.flag(_AUTO))
    elif _AUTO in facts.known:
        facts.effectless(facts.flag(_AUTO), "off")
    if facts.get(_STATES) and automatic:
        facts.unsupported(facts.flag(_STATES), "the automatic mode chooses what is offloaded")
    elif facts.get(_STATES):
        facts.say("parallel.offload.optimizer_states", "host", facts.flag(_STATES))
    _activations(facts, automatic)


def _limit(facts: Facts, automatic: bool) -> dict[str, str]:
    """What the automatic mode keeps devices under, if anything is said about it."""
    flag = facts.flag(_MOST)
    size = _SIZE.fullmatch(facts.get(_MOST, ""))
    if _MOST not in facts.known:
        return {}
    if not automatic:
        facts.effectless(flag, "devices have the memory that the catalog says")
    elif size:
        facts.absorb(flag)
        return {"max_device_memory": f"{size[1]} GiB"}
    else:
        facts.wrong(flag, "expected a size such as 58GB")
    return {}


def _activations(facts: Facts, automatic: bool) -> None:
    swaps = facts.get(_SWAP)
    if swaps and automatic:
        facts.unsupported(facts.flag(_SWAP), "the automatic mode chooses what is offloaded")
    if not swaps or automatic:
        facts.drop_effectless((_LAYERS, _OPERATORS, _AHEAD), "nothing is swapped")
        return
    if patterns := _patterns(facts):
        facts.say("parallel.offload.activations", {"to": "host", "match": patterns}, facts.flag(_SWAP))
    else:
        facts.unsupported(facts.flag(_SWAP), "activations stay on the device: no layers are named")
    if _OPERATORS in facts.known:
        facts.unsupported(facts.flag(_OPERATORS), "operators are not swapped by themselves")
    facts.drop_effectless((_AHEAD,), "what comes back does so one block ahead")


def _patterns(facts: Facts) -> list[str]:
    """The layers that are swapped, as patterns; problems are noted."""
    given, flag = facts.get(_LAYERS), facts.flag(_LAYERS)
    if given is None:
        return []
    patterns: dict[str, None] = {}
    for section in given if isinstance(given, list) else [given]:
        layers = section.get("layers") if isinstance(section, Mapping) else None
        if layers is True:
            return ["layers.*"]
        if not isinstance(layers, list) or not all(isinstance(number, int) for number in layers):
            facts.wrong(flag, "expected a list of sections with layers: true or a list of numbers")
            return []
        patterns |= dict.fromkeys(f"layers.{number}.*" for number in layers)
    facts.absorb(flag)
    return list(patterns)
