"""PyTorch Lightning and Fabric: a program that makes a ``Trainer`` or ``Fabric``, or LightningCLI's YAML.

Settings have the names of LightningCLI (``trainer.devices``); of strategies those begin with the strategy's
name (``fsdp.sharding_strategy``). Defaults are from memory of its public documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from simcluster.foreign.deepspeed import (
    OPTIMIZER,
    STAGE,
    WEIGHTS,
    finish_deepspeed,
    read_place,
    read_zero_stage,
    state_referenced_deepspeed,
)
from simcluster.foreign.formats.deepspeed import meaning_of as deepspeed_meaning
from simcluster.foreign.importer_interface import Importer, UserAdditions
from simcluster.foreign.pytorch import (
    RECOMPUTED,
    SHARDING,
    fsdp_meaning,
    read_hub_name,
    state_all_recomputed,
    state_hub_model,
    state_reduced_format,
    state_strategy,
    state_trainer_profile,
)
from simcluster.foreign.reading import Flag, PythonProgram, PythonSetting, one_line, read_settings
from simcluster.foreign.translation import (
    Facts,
    Meaning,
    has_no_effect,
    ignored_settings,
    not_expressible,
    read_boolean,
    read_number,
    read_word,
    reads_betas,
    reads_clip,
    states_value,
    switch,
)

_IGNORED = ignored_settings("lightning")
_MODEL, _STRATEGY, _FILE = "model name", "lightning strategy", "deepspeed file"
_COMPUTE = "training.precision.compute"
_STRATEGIES = {
    "FSDPStrategy": "fsdp",
    "DDPFullyShardedNativeStrategy": "fsdp",
    "DeepSpeedStrategy": "deepspeed",
    "DDPStrategy": "ddp",
    "ModelParallelStrategy": "model_parallel",
    "FSDP2Strategy": "model_parallel",
}
_OPTIMIZERS = {
    **dict.fromkeys(("AdamW", "Adam", "FusedAdam", "DeepSpeedCPUAdam"), "adamw"),
    "SGD": "momentum",
    "Muon": "muon",
}
_STAGE = re.compile(r"deepspeed(?:_stage_([0-3]))?(_offload)?(_nvme)?")
_OPEN = "only a run of the program would tell it"


class Lightning(Importer):
    """PyTorch Lightning's arguments."""

    kind = "lightning"
    title = "a program or YAML of PyTorch Lightning"
    marks = (
        "trainer.devices",
        "trainer.strategy",
        "trainer.precision",
        "trainer.num_nodes",
        "trainer.strategy.",
    )

    def read(self, text: str, name: str, given: UserAdditions) -> Facts:
        """What the Trainer is told; the sequence is open, and the model where no hub name is written."""
        program = PythonProgram.parse(text) if name.endswith(".py") else None
        written = [*_of_program(program, name)] if program else read_settings(text, name)
        names = {} if program else _yaml_names(written)
        facts = self.understood(written, name, given, lambda key: _meaning(names.get(key, key)))
        state_hub_model(facts, _MODEL, given)
        facts.default("hosts", 1, "num_nodes: 1 (Lightning's default)")
        facts.default(_COMPUTE, "fp32", "precision: 32-true (Lightning's default)")
        facts.default("accumulation", 1, "accumulate_grad_batches: 1 (Lightning's default)")
        _sharding(facts, given)
        state_all_recomputed(facts)
        facts.default("training.optimizer.kind", "adamw", "assumed: the program chooses the optimizer")
        return facts


def _of_program(program: PythonProgram, name: str) -> Iterator[Flag]:
    """The settings of the calls that make a trainer, its strategy, the loader of data and the optimizer."""
    settings = [*program.settings()]
    objects = any(_called(setting) in _STRATEGIES for setting in settings)
    for setting in settings:
        key = _key(setting)
        if key == "trainer.strategy" and not setting.known and objects:
            continue  # the object is read where it is made
        if key:
            yield _flag(key, setting.value, setting, name)
        if setting.called and _called(setting) in _STRATEGIES:
            yield _flag("trainer.strategy", _STRATEGIES[_called(setting)], setting, name)
        if setting.called and _called(setting) in _OPTIMIZERS:
            yield replace(
                _flag("optimizer", _called(setting), setting, name),
                text=one_line(setting.path[0]),
                missing="",
            )
    for setting in program.first_arguments():
        if setting.path[0].endswith(("Model.from_pretrained", "LM.from_pretrained")):
            yield _flag("model", setting.value, setting, name)


def _called(setting: PythonSetting) -> str:
    return setting.path[0].rpartition(".")[2] if setting.called else ""


def _key(setting: PythonSetting) -> str:
    """The name of a setting in LightningCLI's YAML; empty for what is none."""
    if len(setting.path) != 2 or not setting.called:
        return ""
    called, key = _called(setting), setting.path[1]
    if called in ("Trainer", "Fabric"):
        return f"trainer.{key}"
    if called in _STRATEGIES:
        return f"{_STRATEGIES[called]}.{key}"
    if called == "DataLoader":
        return f"data.{key}"
    return f"optimizer.{key}" if called in _OPTIMIZERS else ""


def _flag(key: str, value: object, setting: PythonSetting, name: str) -> Flag:
    known = setting.known or value is not None
    text = one_line(f"{setting.path[-1]}={setting.shown}")
    return Flag(key, value, text, f"{name}:{setting.line}", "" if known else _OPEN)


def _yaml_names(settings: list[Flag]) -> dict[str, str]:
    """LightningCLI's settings of classes (``class_path``, ``init_args``), with names that have meanings."""
    paths = {flag.name: str(flag.value).rpartition(".")[2] for flag in settings}
    strategy = _STRATEGIES.get(paths.get("trainer.strategy.class_path", ""), "")
    names = {
        "trainer.strategy.class_path": "trainer.strategy",
        "optimizer.class_path": "optimizer",
    }
    for name in paths:
        head, _, key = name.rpartition(".init_args.")
        if head == "trainer.strategy":
            names[name] = f"{strategy}.{key}"
        elif head == "optimizer":
            names[name] = f"optimizer.{key}"
        elif key == "batch_size":
            names[name] = "data.batch_size"
    return names


def _devices(facts: Facts, flag: Flag) -> None:
    """Devices of each host: a number, their numbers, or all."""
    value = flag.value
    if isinstance(value, list):
        value = len(value)
    elif isinstance(value, str) and "," in value:
        value = len([part for part in value.split(",") if part.strip()])
    if value in ("auto", -1, "-1"):
        facts.effectless(flag, "all of the cluster")
    else:
        states_value("devices_per_host")(facts, replace(flag, value=value))


def _precision(facts: Facts, flag: Flag) -> None:
    """``bf16-mixed`` and its like; ``-true`` has weights in that format, too."""
    if flag.missing:
        facts.leave_open(_COMPUTE, flag)
        return
    said = str(flag.value).lower()
    number, _, kind = said.partition("-")
    formats = {"bf16": "bf16", "16": "fp16", "32": "fp32", "fp16": "fp16"}
    if said.startswith("transformer"):
        facts.say(_COMPUTE, "bf16", flag)
        facts.say("training.precision.matmul", "fp8", flag)
    elif number not in formats:
        facts.wrong(flag, "expected bf16-mixed, 16-mixed, 32-true, bf16-true or 16-true")
    else:
        facts.say(_COMPUTE, formats[number], flag)
        if kind == "true" and number != "32":
            facts.say("whole weights", True, flag)


def _strategy(facts: Facts, flag: Flag) -> None:
    """A strategy by its name; DeepSpeed's say the stage of ZeRO and what lies on the host."""
    made = _STRATEGIES.get(str(flag.value).rpartition(".")[2])  # a class, in a YAML
    said = made or str(flag.value or "auto").lower()
    stage = _STAGE.fullmatch(said)
    if flag.missing:
        facts.leave_open(SHARDING, flag)
    elif stage is not None:
        facts.say(_STRATEGY, "deepspeed", flag)
        if stage[1]:
            read_zero_stage(facts, replace(flag, value=int(stage[1])))
        for part in (OPTIMIZER, WEIGHTS) if stage[2] else ():
            if part == OPTIMIZER or stage[1] == "3":
                read_place(facts, replace(flag, value="nvme" if stage[3] else "cpu"), part)
    elif said in ("auto", "dp") or said.startswith("ddp"):
        facts.say(_STRATEGY, "ddp", flag)
    elif said.startswith("fsdp") or said == "model_parallel":
        facts.say(_STRATEGY, "model_parallel" if said == "model_parallel" else "fsdp", flag)
        if said.endswith("cpu_offload"):
            known = fsdp_meaning("offload_params")
            if known is not None:
                known(facts, replace(flag, value=True))
    else:
        facts.wrong(
            flag, "expected ddp, fsdp, deepspeed_stage_1 to 3, or a strategy that is made in the file"
        )


def _offloads(part: str) -> Meaning:
    """A switch that moves a part to the host."""

    def meaning(facts: Facts, flag: Flag) -> None:
        if read_boolean(facts, flag):
            read_place(facts, replace(flag, value="cpu"), part)
        else:
            facts.effectless(flag, "off")

    return meaning


def _checkpointing(facts: Facts, flag: Flag) -> None:
    """Which modules recompute their activations; whole layers are taken for any."""
    if flag.value is None and not flag.missing:
        facts.effectless(flag, "off")
        return
    facts.say(RECOMPUTED, True, flag)
    facts.remark(f"{flag}: layers are recomputed as a whole")


def _clip(facts: Facts, flag: Flag) -> None:
    if flag.value is None and not flag.missing:
        facts.effectless(flag, "off")
    else:
        reads_clip(facts, flag)


def _optimizer(facts: Facts, flag: Flag) -> None:
    rule = _OPTIMIZERS.get(str(flag.value).rpartition(".")[2])
    if rule is None:
        facts.unsupported(flag, "adamw is simulated")
    else:
        facts.say("training.optimizer.kind", rule, flag)


_MEANINGS: Mapping[str, Meaning] = {
    "trainer.devices": _devices,
    "trainer.gpus": _devices,
    "trainer.num_nodes": states_value("hosts"),
    "trainer.strategy": _strategy,
    "trainer.precision": _precision,
    "trainer.accumulate_grad_batches": states_value("accumulation"),
    "trainer.gradient_clip_val": _clip,
    "trainer.sync_batchnorm": not_expressible("norms are those of each rank"),
    "trainer.plugins": not_expressible("plugins of the Trainer are not read", unless=(None, [])),
    "data.batch_size": states_value("training.micro_batch"),
    "model": lambda facts, flag: read_hub_name(facts, flag, _MODEL),
    "optimizer": _optimizer,
    "optimizer.lr": states_value("training.optimizer.learning_rate", read_number),
    "optimizer.betas": reads_betas,
    "optimizer.eps": states_value("training.optimizer.eps", read_number),
    "optimizer.weight_decay": states_value("training.optimizer.weight_decay", read_number),
    "optimizer.momentum": states_value("training.optimizer.momentum", read_number),
    "optimizer.fused": has_no_effect,
    "fsdp.activation_checkpointing_policy": _checkpointing,
    "fsdp.activation_checkpointing": _checkpointing,
    "deepspeed.stage": read_zero_stage,
    "deepspeed.config": states_value(_FILE, read_word),
    "deepspeed.offload_optimizer": _offloads(OPTIMIZER),
    "deepspeed.offload_parameters": _offloads(WEIGHTS),
    "model_parallel.tensor_parallel_size": states_value("tensor"),
    "model_parallel.data_parallel_size": has_no_effect,
    "ddp.static_graph": has_no_effect,
    "ddp.gradient_as_bucket_view": has_no_effect,
    "ddp.find_unused_parameters": has_no_effect,
    "fsdp.use_orig_params": has_no_effect,
    "deepspeed.cpu_checkpointing": not_expressible("saved activations stay in the device's memory"),
    "deepspeed.contiguous_memory_optimization": switch("contiguous checkpoints"),
}


def _meaning(name: str) -> Meaning | None:
    if meaning := _MEANINGS.get(name):
        return meaning
    section, _, key = name.partition(".")
    if section == "fsdp":
        return fsdp_meaning(key)
    if section == "deepspeed":
        return deepspeed_meaning(f"zero_optimization.{key}") or has_no_effect
    ignored = section in _IGNORED["effectless"] or (
        section == "trainer" and key.partition(".")[0] in _IGNORED["trainer"]
    )
    return has_no_effect if ignored or section in ("data", "optimizer", "ddp", "model_parallel") else None


def _sharding(facts: Facts, given: UserAdditions) -> None:
    """What the strategy shards; the numbers that go with it."""
    facts.default(_STRATEGY, "ddp", "strategy: auto is data parallelism")
    kind, flag = facts.get(_STRATEGY), facts.drop(_STRATEGY)
    whole = facts.drop("whole weights") if "whole weights" in facts.known else None
    if kind == "deepspeed":
        state_trainer_profile(facts, "deepspeed-zero", str(flag))
        if _FILE in facts.known:
            state_referenced_deepspeed(facts, facts.drop(_FILE), given, deepspeed_meaning)
        else:
            if STAGE not in facts.known:
                read_zero_stage(facts, Flag("stage", 2, "stage=2 (Lightning's default)"))
            finish_deepspeed(facts, given)
    elif kind in ("fsdp", "model_parallel"):
        state_strategy(facts, given, unnamed=flag)
        state_trainer_profile(facts, "fsdp", str(flag))
        state_reduced_format(facts)
    else:
        facts.default(SHARDING, {"zero": 0}, "data parallelism: every rank holds everything")
        state_trainer_profile(facts, "ddp", "data parallelism")
    if whole is not None and kind != "deepspeed":
        facts.replace("training.precision.gradients", facts.get(_COMPUTE), whole)
        facts.say("training.precision.master", "none", whole)
        facts.say("training.optimizer.states", facts.get(_COMPUTE), whole)
