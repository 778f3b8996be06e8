"""Arguments of the Trainer in a Python program: calls of transformers, TRL, PEFT and Unsloth."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from simcluster.foreign.reading import Flag, PythonProgram, PythonSetting, one_line
from simcluster.foreign.translation import PREFERENCES, Facts

_ARGUMENTS = re.compile(r"(?:\w*TrainingArguments|SFTConfig|\w*ScriptArguments|ModelConfig|SFTTrainer)")
_PREFERENCES = re.compile(r"(?:DPO|GRPO|PPO|KTO|ORPO|CPO|RLOO|GKD|OnlineDPO|Reward)(?:Config|Trainer)")
_ADAPTERS: Mapping[str, str] = {
    "r": "lora_r",
    "lora_alpha": "lora_alpha",
    "lora_dropout": "lora_dropout",
    "target_modules": "lora_target_modules",
    "modules_to_save": "lora_modules_to_save",
    "use_dora": "use_dora",
    "use_gradient_checkpointing": "gradient_checkpointing",
}
_OF_MODELS: Mapping[str, str] = {
    "model_name": "model_name_or_path",
    "pretrained_model_name_or_path": "model_name_or_path",
    "max_seq_length": "max_seq_length",
    "load_in_4bit": "load_in_4bit",
    "load_in_8bit": "load_in_8bit",
    "attn_implementation": "attn_implementation",
}
_SUPPORTED = ("is_bf16_supported()", "is_bfloat16_supported()")
_OPEN = "only a run of the program would tell it"


def python_arguments(program: PythonProgram, name: str) -> Iterator[Flag]:
    """The settings of a program by the names that they have on a command line, in order; ``name`` is the
    file's.
    """
    named: set[str] = set()
    for setting in program.settings():
        function = setting.path[0].rpartition(".")[2]
        if setting.called and _is_adapter(setting.path[0]) and "use_peft" not in named:
            named.add("use_peft")
            yield Flag("use_peft", True, one_line(setting.path[0]), f"{name}:{setting.line}")
        key = _key(setting, function)
        if key and key not in named:
            named.add(key)
            yield _flag(key, setting, name)
    for setting in program.first_arguments():
        model = setting.path[0].endswith(("Model.from_pretrained", "LM.from_pretrained"))
        if model and "model_name_or_path" not in named:
            named.add("model_name_or_path")
            yield _flag("model_name_or_path", setting, name)


def refuse_preferences(facts: Facts, program: PythonProgram, name: str) -> None:
    """Refuses a program that calls a trainer of preferences or rewards."""
    for setting in program.settings():
        function = setting.path[0].rpartition(".")[2]
        if setting.called and _PREFERENCES.fullmatch(function):
            facts.refuse(Flag(function, True, function, f"{name}:{setting.line}"), PREFERENCES)
            return


def _key(setting: PythonSetting, function: str) -> str:
    """The name of a setting on a command line; empty for what is none."""
    if not setting.called or len(setting.path) != 2:
        return ""
    key = setting.path[1]
    if _ARGUMENTS.fullmatch(function) or _PREFERENCES.fullmatch(function):
        own = not (function == "SFTTrainer" and key not in ("max_seq_length", "packing"))
        return key if own else ""
    if _is_adapter(setting.path[0]):
        return _ADAPTERS.get(key, "")
    if function == "BitsAndBytesConfig":
        return key if key in ("load_in_4bit", "load_in_8bit") else ""
    return _OF_MODELS.get(key, "") if function == "from_pretrained" else ""


def _is_adapter(called: str) -> bool:
    return called.rpartition(".")[2] == "LoraConfig" or (
        called.endswith("get_peft_model") and "." in called  # Unsloth's takes LoRA's arguments itself
    )


def _flag(key: str, setting: PythonSetting, name: str) -> Flag:
    value = setting.value
    if key == "gradient_checkpointing" and isinstance(value, str):
        value = value.lower() not in ("false", "none")  # Unsloth's own kind is a word
    if key == "lora_target_modules" and isinstance(value, list):
        value = ",".join(map(str, value))
    missing = "" if setting.known else _OPEN
    if key in ("bf16", "fp16") and setting.shown.endswith(_SUPPORTED):
        value, missing = not setting.shown.startswith("not "), ""  # of devices that know bf16
    return Flag(key, value, one_line(f"{key}={setting.shown}"), f"{name}:{setting.line}", missing)
