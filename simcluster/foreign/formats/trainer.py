"""Arguments of Hugging Face's Trainer: a script that starts one, or its arguments as YAML or JSON.

Scripts start a program by ``torchrun``, ``deepspeed`` or ``accelerate launch``. Besides the Trainer's own
arguments those of programs built on it are known: TRL, FastChat, Stanford Alpaca, the alignment handbook.
Defaults are from memory of public documents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from simcluster.foreign.formats.accelerate import state_accelerate
from simcluster.foreign.formats.deepspeed import meaning_of as deepspeed_meaning
from simcluster.foreign.importer_interface import Importer, UserAdditions
from simcluster.foreign.megatron import state_launcher
from simcluster.foreign.pytorch import (
    argument_meaning,
    fsdp_meaning,
    plain_argument,
    python_arguments,
    rank_variables,
    read_hub_name,
    reads_attention_kernel,
    refuse_preferences,
    state_all_recomputed,
    state_hub_model,
    state_lengths,
    state_swift,
    state_swift_format,
    state_trainer,
    state_trainer_sharding,
    swift_command,
    swift_meaning,
)
from simcluster.foreign.reading import (
    Flag,
    Launch,
    PythonProgram,
    find_launch,
    read_json,
    read_manifest,
    read_script,
    read_settings,
)
from simcluster.foreign.translation import (
    ADAPTER_MEANINGS,
    ADAPTERS,
    PREFERENCES,
    QUANTISED_WEIGHTS,
    Facts,
    Meaning,
    has_no_effect,
    ignored_settings,
    not_expressible,
    read_boolean,
    refuses_setting,
    state_adapters,
    states_value,
    switch,
)

_IGNORED = ignored_settings("trainer_programs")
_MODEL, _CONFIG, _PACKED, _FSDP_FILE = "model name", "config name", "packing", "fsdp file"
_MARKS = (
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "num_train_epochs",
    "model_name_or_path",
    "output_dir",
    "fsdp",
    "deepspeed",
)
_PREFERENCES = re.compile(
    r"\b(?:verl\.trainer\.main_\w+|openrlhf\.cli\.train_(?:ppo|dpo|kto|rm|prm|knowledge)\w*|"
    r"(?:dpo|grpo|ppo|kto|orpo|cpo|rloo|gkd|online_dpo|reward_modeling|run_dpo|run_orpo)\w*\.py|"
    r"swift\s+rlhf)\b"
)
"""Programs that train with preferences or rewards: of verl, OpenRLHF, TRL and ms-swift."""


class HuggingFaceTrainer(Importer):
    """The arguments of a program around Hugging Face's Trainer."""

    kind = "trainer"
    title = "a script or file with arguments of Hugging Face's Trainer"
    takes_variables = True
    marks = _MARKS

    def read(self, text: str, name: str, given: UserAdditions) -> Facts:
        """Reads the arguments and the files that they name; nothing is executed."""
        facts = Facts(settings=dict(given.settings))
        program = PythonProgram.parse(text) if name.endswith(".py") else None
        manifest = read_manifest(text, name, [f"--{mark}" for mark in _MARKS])
        if program is not None:
            refuse_preferences(facts, program, name)
            launch = Launch((), tuple(python_arguments(program, name)))
        elif manifest is not None:
            launch = _launch(facts, manifest.text, name, given)
            launch = replace(launch, launcher=(*manifest.launcher, *launch.launcher))
        elif name.endswith((".json", ".yaml", ".yml")):
            launch = Launch((), tuple(read_settings(text, name)))
        else:
            launch = _launch(facts, text, name, given)
        written = [plain_argument(flag) for flag in launch.arguments]
        self.expect(written, name)
        swift = program is None and swift_command(text)
        facts.understand(written, lambda key: (swift and swift_meaning(key)) or _meaning(key))
        if swift:
            state_swift_format(facts)
        if _CONFIG in facts.known:
            facts.drop_effectless((_MODEL,), "its weights; the config has the sizes")
        state_hub_model(facts, _CONFIG, given)
        state_hub_model(facts, _MODEL, given)
        _fsdp_file(facts, given)
        if not _launched_by_accelerate(facts, launch, given):
            alone = not (launch.program or {"fsdp", "deepspeed"} & {flag.name for flag in written})
            state_trainer_sharding(facts, given, deepspeed_meaning)
            if alone:
                facts.remark(
                    "every rank holds all weights, unless the launcher's file shards them: "
                    "--set parallel.optimizer_sharding={zero: 3}"
                )
        if launch.launcher or launch.program or swift:
            facts.default("hosts", 1, "one host: no number of nodes is said (the launchers' default)")
        if swift:
            state_swift(facts, given)
        state_adapters(facts, "PEFT", 8, 8, ("q_proj", "v_proj"))
        state_lengths(facts, _PACKED)
        facts.default("accumulation", 1, "gradient_accumulation_steps: 1 (the Trainer's default)")
        state_all_recomputed(facts)
        state_trainer(facts)
        return facts


def _launch(facts: Facts, text: str, name: str, given: UserAdditions) -> Launch:
    """The one command of a script that starts a Trainer."""
    program = _PREFERENCES.search(text)
    if program is not None:
        line = text.count("\n", 0, program.start()) + 1
        facts.refuse(Flag(program[0], True, program[0], f"{name}:{line}"), PREFERENCES)
    script = read_script(text, name, given.variables)
    marks = frozenset(f"--{mark}" for mark in _MARKS)
    if facts.refused:
        return Launch((), tuple(Flag(mark, None) for mark in _MARKS[:1]))
    launch = find_launch(script, text, marks, "a Trainer")
    facts.remarks += script.remarks
    if swift_command(text):
        launch = replace(launch, launcher=(*launch.launcher, *rank_variables(text, script)))
    return launch


def _launched_by_accelerate(facts: Facts, launch: Launch, given: UserAdditions) -> bool:
    """States the launcher's options; gives whether it is Accelerate and shards the weights itself."""
    flags = [plain_argument(flag) for flag in launch.launcher]
    file = next((flag for flag in flags if flag.name == "config_file"), None)
    said = [replace(flag, name=_ACCELERATE[flag.name]) for flag in flags if flag.name in _ACCELERATE]
    said += [
        replace(flag, name=f"fsdp_config.{flag.name}") for flag in flags if flag.name.startswith("fsdp_")
    ]
    said += [
        replace(flag, name="distributed_type", value=_USED[flag.name]) for flag in flags if flag.name in _USED
    ]
    own = {flag.where + flag.text for flag in said} | {file.where + file.text if file else ""}
    options = (flag for flag in launch.launcher if flag.where + flag.text not in own)
    state_launcher(facts, options, given.hosts)
    if file is not None:
        facts.absorb(file)
        text = given.referenced(str(file.value))
        if text is None:
            facts.wrong(file, "the file that it names is not found", "import it where that file is")
            return True
        names = {flag.name for flag in said}
        said += [flag for flag in read_settings(text, str(file.value)) if flag.name not in names]
    asked = any(flag.name == "distributed_type" and flag.value not in _PLAIN for flag in said)
    if asked and "deepspeed file" not in facts.known:
        state_accelerate(facts, said, given)
        return True
    facts.understand(said, _launcher_meaning)
    return False


_ACCELERATE: Mapping[str, str] = {
    "num_processes": "num_processes",
    "num_machines": "num_machines",
    "mixed_precision": "mixed_precision",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "zero_stage": "deepspeed_config.zero_stage",
    "deepspeed_config_file": "deepspeed_config.deepspeed_config_file",
    "offload_optimizer_device": "deepspeed_config.offload_optimizer_device",
    "offload_param_device": "deepspeed_config.offload_param_device",
}
"""Options of ``accelerate launch`` by their keys in its file."""

_USED = {"use_fsdp": "FSDP", "use_deepspeed": "DEEPSPEED", "use_megatron_lm": "MEGATRON_LM"}
_PLAIN = ("NO", "no", False, None, "MULTI_GPU", "MULTI_NPU", "MULTI_CPU")
_LAUNCHED: Mapping[str, Meaning] = {
    "num_processes": states_value("world"),
    "num_machines": states_value("hosts"),
}


def _launcher_meaning(name: str) -> Meaning | None:
    """Of a launcher that does not shard only the numbers of ranks count."""
    return _LAUNCHED.get(name) or (
        lambda facts, flag: facts.effectless(flag, "the Trainer's arguments count")
    )


def _lora(facts: Facts, flag: Flag) -> None:
    if read_boolean(facts, flag):
        facts.say("adapters", "lora", flag)
    else:
        facts.effectless(flag, "off")


def _fsdp_config(facts: Facts, flag: Flag) -> None:
    """A file with settings of FSDP, or these themselves."""
    facts.say(_FSDP_FILE, str(flag.value), flag)


def _fsdp_file(facts: Facts, given: UserAdditions) -> None:
    """Reads the FSDP settings that ``--fsdp_config`` names or holds."""
    if _FSDP_FILE not in facts.known:
        return
    said, flag = facts.get(_FSDP_FILE), facts.drop(_FSDP_FILE)
    text = said if said.lstrip().startswith("{") else given.referenced(said)
    if text is None:
        facts.wrong(flag, "the file that it names is not found", "import it where that file is")
        return
    facts.absorb(flag)
    name = flag.where if text is said else said
    settings = read_json(text, name) if text is said or said.endswith(".json") else read_settings(text, name)
    facts.understand(settings, fsdp_meaning)


_LENGTHS = ("max_seq_length", "model_max_length", "max_length", "max_seq_len", "block_size", "cutoff_len")
_OWN: Mapping[str, Meaning] = {
    "model_name_or_path": lambda facts, flag: read_hub_name(facts, flag, _MODEL),
    "base_model": lambda facts, flag: read_hub_name(facts, flag, _MODEL),
    "config_name": lambda facts, flag: read_hub_name(facts, flag, _CONFIG),
    "config_overrides": not_expressible("sizes are those of the config that is named", unless=(None, "")),
    **dict.fromkeys(_LENGTHS, states_value("training.seq_len")),
    "packing": switch(_PACKED, True, False),
    "fsdp_config": _fsdp_config,
    "bits": refuses_setting(QUANTISED_WEIGHTS, unless=(None, 16, 32, "16", "32")),
    **dict.fromkeys(
        ("load_in_4bit", "load_in_8bit", "q_lora", "use_qlora"), refuses_setting(QUANTISED_WEIGHTS)
    ),
    **dict.fromkeys(("use_peft", "use_lora", "lora_enable", "lora"), _lora),
    **dict.fromkeys(("lora_r", "lora_rank"), ADAPTER_MEANINGS["rank"]),
    "lora_alpha": ADAPTER_MEANINGS["alpha"],
    "lora_dropout": ADAPTER_MEANINGS["dropout"],
    **dict.fromkeys(("lora_target_modules", "lora_target"), ADAPTER_MEANINGS["targets"]),
    "lora_modules_to_save": ADAPTER_MEANINGS["others"],
    "use_dora": refuses_setting(ADAPTERS),
    "attn_implementation": reads_attention_kernel(
        "flash_attention_3", ("eager",), ("flash_attention_2", "sdpa", "none")
    ),
    **dict.fromkeys(
        ("flash_attn", "use_flash_attn", "use_flash_attention_2", "bf16_full_eval"), has_no_effect
    ),
    "freeze_vision_tower": has_no_effect,
    **dict.fromkeys(
        ("vision_tower", "mm_projector_type"),
        not_expressible("the decoder alone is simulated, without the image encoder", unless=(None, "")),
    ),
    "use_unsloth": not_expressible("kernels are PyTorch's"),
    **dict.fromkeys(
        ("beta", "loss_type", "max_prompt_length", "num_generations"), refuses_setting(PREFERENCES)
    ),
}


def _meaning(name: str) -> Meaning | None:
    if meaning := _OWN.get(name) or argument_meaning(name):
        return meaning
    if name.startswith("fsdp_"):
        return fsdp_meaning(name)
    head = name.partition(".")[0]
    ignored = head in _IGNORED["effectless"] or head in ignored_settings("trainer")["effectless"]
    return has_no_effect if ignored else None
