"""A DeepSpeed JSON that another tool's file names, or holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from simcluster.foreign.deepspeed.auto_values import AUTO, fill_auto_values
from simcluster.foreign.deepspeed.host_offload import OPTIMIZER, WEIGHTS, state_deepspeed_offload
from simcluster.foreign.deepspeed.zero_stages import (
    STAGE,
    ZERO,
    state_gradient_format,
    state_zero_sharding,
)
from simcluster.foreign.importer_interface import UserAdditions
from simcluster.foreign.reading import Flag, read_json
from simcluster.foreign.translation import Facts, Meaning, user_value_for

_SHARDING = "parallel.optimizer_sharding"

SHIPPED: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "ds_z0_config.json": (0, ()),
    "ds_z2_config.json": (2, ()),
    "ds_z2_offload_config.json": (2, (OPTIMIZER,)),
    "ds_z3_config.json": (3, ()),
    "ds_z3_offload_config.json": (3, (OPTIMIZER, WEIGHTS)),
    **{f"zero{stage}": (stage, ()) for stage in range(4)},
    "zero2_offload": (2, (OPTIMIZER,)),
    "zero3_offload": (3, (OPTIMIZER, WEIGHTS)),
    "zero1.json": (1, ()),
    "zero2.json": (2, ()),
    "zero3.json": (3, ()),
    "zero3_bf16.json": (3, ()),
    "zero3_bf16_cpuoffload_all.json": (3, (OPTIMIZER, WEIGHTS)),
    "zero3_bf16_cpuoffload_params.json": (3, (WEIGHTS,)),
}
"""Files of LLaMA-Factory (examples/deepspeed), axolotl (deepspeed_configs) and ms-swift (named without an
ending) by their names: the stage of ZeRO, and what lies on the host (from memory)."""


def state_referenced_deepspeed(
    facts: Facts, flag: Flag, given: UserAdditions, meaning_of: Callable[[str], Meaning | None]
) -> None:
    """Reads the file that a setting names, as if its settings stood there; its "auto" are the trainer's.

    ``meaning_of`` gives the meaning of DeepSpeed's settings. A file that is not found is taken for the one
    that its tool ships under this name; a problem if there is none.
    """
    path = str(flag.value)
    text = given.referenced(path)
    facts.absorb(flag)
    if text is not None:
        include_settings(facts, read_json(text, path), given, meaning_of)
    elif (name := path.replace("\\", "/").rpartition("/")[2]) in SHIPPED:
        stage, places = SHIPPED[name]
        facts.say(_SHARDING, ZERO[stage], flag)
        facts.say(STAGE, stage, flag)
        for place in places:
            facts.say(place, "host", flag)
        facts.remark(
            f"{flag}: not found here; taken for the file of this name that the tool ships: ZeRO {stage}"
        )
        finish_deepspeed(facts, given)
    elif any(name.startswith(_SHARDING) for name in facts.settings):
        said = user_value_for(_SHARDING, facts.settings)
        facts.say(STAGE, said[1].get("zero", 0) if said and isinstance(said[1], dict) else 1, flag)
        state_gradient_format(facts)
    else:
        hint = f"import it where that file is, or give --set {_SHARDING}={{zero: 3}}"
        facts.wrong(flag, "the file that it names is not found", hint)


def include_settings(
    facts: Facts, settings: list[Flag], given: UserAdditions, meaning_of: Callable[[str], Meaning | None]
) -> None:
    """States what settings of DeepSpeed say beside those of a trainer, which fill in what is "auto"."""
    facts.understand([flag for flag in settings if flag.value != AUTO], meaning_of)
    fill_auto_values(facts, [flag for flag in settings if flag.value == AUTO], given, meaning_of)
    finish_deepspeed(facts, given)


def finish_deepspeed(facts: Facts, given: UserAdditions) -> None:
    """ZeRO and offload, now that all is read."""
    state_gradient_format(facts)
    state_zero_sharding(facts)
    state_deepspeed_offload(facts, given)
