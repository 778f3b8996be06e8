"""ms-swift's launches of Megatron (``megatron sft``): a model of the hub, arguments with underscores.

Defaults are from memory of its public documents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from simcluster.foreign.deepspeed import ZERO
from simcluster.foreign.importer_interface import UserAdditions
from simcluster.foreign.pytorch import all_linear_targets, read_hub_name, state_hub_model
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import (
    ADAPTER_MEANINGS,
    PREFERENCES,
    Facts,
    Meaning,
    has_no_effect,
    not_expressible,
    read_boolean,
    reads_adapter_kind,
    states_value,
)

_COMMAND = re.compile(r"^[^#\n]*\bmegatron\s+(sft|pt|rlhf)\b", re.M)
_MODEL = "model name"
_CONVERTED = re.compile(r"[-_]mcore$")


def swift_launch(text: str) -> str:
    """What a script starts of ms-swift's Megatron: "sft", "pt" or "rlhf"; empty if it does not."""
    command = _COMMAND.search(text)
    return command[1] if command else ""


def _loaded(facts: Facts, flag: Flag) -> None:
    """The folder of converted weights, which is called after the model; ``--model`` counts before it."""
    name = flag.value[0] if isinstance(flag.value, list) else str(flag.value)
    if flag.missing or _MODEL in facts.known:
        facts.effectless(flag)
    else:
        stem = _CONVERTED.sub("", name.rstrip("/"))
        facts.say(_MODEL, stem, flag)


def _model(facts: Facts, flag: Flag) -> None:
    name = flag.value[0] if isinstance(flag.value, list) and flag.value else flag.value
    read_hub_name(facts, replace(flag, value=name), _MODEL)


def _adapters(facts: Facts, flag: Flag) -> None:
    said = flag.value[0] if isinstance(flag.value, list) else flag.value
    kind = None if said == "full" else said
    reads_adapter_kind(facts, replace(flag, value=kind))


def _packed(facts: Facts, flag: Flag) -> None:
    if read_boolean(facts, flag):
        facts.unsupported(flag, "attention goes over whole sequences, not sample by sample")
    else:
        facts.effectless(flag, "off")


_MEANINGS: Mapping[str, Meaning] = {
    "load": _loaded,
    "model": _model,
    "mcore_model": has_no_effect,
    "max_length": states_value("training.seq_len"),
    "packing": _packed,
    **dict.fromkeys(("train_type", "tuner_type"), _adapters),
    "lora_rank": ADAPTER_MEANINGS["rank"],
    "lora_alpha": ADAPTER_MEANINGS["alpha"],
    "lora_dropout": ADAPTER_MEANINGS["dropout"],
    "target_modules": ADAPTER_MEANINGS["targets"],
    "freeze_vit": has_no_effect,
    "freeze_llm": not_expressible("the decoder is trained"),
    **dict.fromkeys(
        (
            "dataset",
            "split_dataset_ratio",
            "max_epochs",
            "num_train_epochs",
            "dataset_num_proc",
            "load_safetensors",
            "save_safetensors",
            "merge_lora",
            "model_author",
            "model_name",
            "model_type",
            "system",
            "torch_dtype",
            "use_hf",
            "custom_register_path",
            "load_from_cache_file",
            "streaming",
            "cached_dataset",
            "output_dir",
        ),
        has_no_effect,
    ),
}


def swift_launch_meaning(key: str) -> Meaning | None:
    """What an argument means that is ms-swift's own; None if it is Megatron's."""
    return _MEANINGS.get(key)


def refuse_swift_rewards(facts: Facts, text: str, name: str) -> None:
    """Refuses ``megatron rlhf``."""
    command = _COMMAND.search(text)
    if command is not None and command[1] == "rlhf":
        line = text.count("\n", 0, command.start(1)) + 1
        facts.refuse(Flag("megatron rlhf", True, "megatron rlhf", f"{name}:{line}"), PREFERENCES)


def state_swift_launch(facts: Facts, given: UserAdditions) -> None:
    """The model that is named, and ms-swift's defaults in place of Megatron's."""
    state_hub_model(facts, _MODEL, given)
    if "training.micro_batch" not in facts.settings:
        facts.default("training.micro_batch", 1, "micro_batch_size: 1 (ms-swift's default)")
    if "training.global_batch" not in facts.settings:
        facts.default("training.global_batch", 16, "global_batch_size: 16 (ms-swift's default)")
    facts.default("training.precision.compute", "bf16", "torch_dtype: that of the model, bfloat16")
    facts.default(
        "parallel.optimizer_sharding", ZERO[1], "use_distributed_optimizer: true (ms-swift's default)"
    )
    facts.default("recompute", "selective", "recompute_granularity: selective (ms-swift's default)")
    if "adapters" in facts.known:
        targets = list(all_linear_targets(facts, given))
        if facts.get("lora_targets", ["all-linear"]) == ["all-linear"]:
            facts.replace("lora_targets", targets, facts.flag("lora_targets"))
        facts.default("lora_alpha", 32, "lora_alpha: 32 (ms-swift's default)")
        facts.default("lora_rank", 8, "lora_rank: 8 (ms-swift's default)")
    names = (
        "hidden_dropout",
        "attention_dropout",
        "query_groups",
        "grouped",
        "positions_limit",
        "padded_vocab",
    )
    facts.drop_effectless(names, "the model is the one that is named")
