"""Low-rank adapters in files of other tools: what kind, of which size, beside which weights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from simcluster.document import choice_phrase
from simcluster.errors import nearest
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation.facts import Facts, Meaning
from simcluster.foreign.translation.flag_readers import (
    has_no_effect,
    not_expressible,
    read_number,
    states_value,
)
from simcluster.foreign.translation.unsupported_features import ADAPTERS

_OFF: tuple[Any, ...] = (None, False, "none", "None", "null", "", {})
_PARTS = ("lora_rank", "lora_alpha", "lora_dropout", "lora_targets")

_TARGETS: Mapping[str, str] = {
    # Megatron's names and PEFT's are those of scenarios.
    **{name: name for name in ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2", "all-linear")},
    **{f"{name}_proj": f"{name}_proj" for name in ("q", "k", "v", "o", "gate", "up", "down")},
    "linear_q": "q_proj",
    "linear_k": "k_proj",
    "linear_v": "v_proj",
    # NeMo 1.
    "attention_qkv": "linear_qkv",
    "attention_dense": "linear_proj",
    "mlp_fc1": "linear_fc1",
    "mlp_fc2": "linear_fc2",
    "all": "all-linear",
    # Megatron's former names, which MindSpeed and GLM have, too.
    "query_key_value": "linear_qkv",
    "dense": "linear_proj",
    "proj": "linear_proj",
    "dense_h_to_4h": "linear_fc1",
    "dense_4h_to_h": "linear_fc2",
    # MindFormers.
    "wq": "q_proj",
    "wk": "k_proj",
    "wv": "v_proj",
    "wo": "o_proj",
    "w1": "gate_proj",
    "w2": "down_proj",
    "w3": "up_proj",
    "w_qkv": "linear_qkv",
    "w_gate_hidden": "linear_fc1",
}
"""Names of weights, as in ``training.lora.targets``."""


def reads_adapter_kind(facts: Facts, flag: Flag) -> None:
    """Whether there are adapters; others than LoRA's are refused."""
    if flag.missing:
        facts.wrong(flag, flag.missing)
    elif flag.value in _OFF:
        facts.effectless(flag, "off")
    elif str(flag.value).rpartition(".")[2].lower() == "lora":
        facts.say("adapters", "lora", flag)
    else:
        facts.refuse(flag, ADAPTERS)


def reads_adapter_targets(facts: Facts, flag: Flag) -> None:
    """The weights beside which there are adapters: a list, or text with ``|`` or commas."""
    if flag.missing:
        facts.leave_open("training.lora.targets", flag)
        return
    targets = []
    for name in _names(flag.value):
        target = _TARGETS.get(name)
        if target is None:
            facts.wrong(flag, f"expected {choice_phrase(_TARGETS)}, found '{name}'", nearest(name, _TARGETS))
            return
        targets.append(target)
    if targets:
        facts.say("lora_targets", list(dict.fromkeys(targets)), flag)


def _names(value: Any) -> Iterator[str]:
    """Names out of lists, commas and simple regular expressions (``.*wq|.*wv``)."""
    for entry in value if isinstance(value, list) else [value]:
        for name in re.split(r"[|,\s]+", str(entry)):
            if stem := name.strip(".*^$()").rpartition(".")[2]:
                yield stem


ADAPTER_MEANINGS: Mapping[str, Meaning] = {
    "rank": states_value("lora_rank"),
    "alpha": states_value("lora_alpha", read_number),
    "dropout": states_value("lora_dropout", read_number),
    "targets": reads_adapter_targets,
    "initial": has_no_effect,
    "others": not_expressible("all weights beside adapters are frozen", unless=(None, "", [])),
}
"""The meanings of settings of adapters, which formats give their own names."""


def state_adapters(facts: Facts, tool: str, rank: int, alpha: float, targets: tuple[str, ...]) -> None:
    """States ``training.lora`` of what was read; what a file leaves out, as the tool has it by default."""
    if "adapters" not in facts.known:
        facts.drop_effectless(_PARTS, "there are no adapters")
        return
    flag = facts.drop("adapters")
    usual = {"lora_rank": rank, "lora_alpha": alpha, "lora_targets": list(targets)}
    if missing := [name for name in usual if name not in facts.known]:
        facts.remark(f"{', '.join(missing)} of adapters: {tool}'s default (from memory)")
    lora: dict[str, Any] = {}
    for name in _PARTS:
        value = facts.get(name, usual.get(name))
        if name in facts.known:
            facts.absorb(facts.drop(name))
        if value:
            whole = isinstance(value, float) and value.is_integer()
            lora[name.removeprefix("lora_")] = int(value) if whole else value
    facts.say("training.lora", lora, flag)
