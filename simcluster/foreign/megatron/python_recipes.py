"""Python recipes of NeMo 2 and Megatron-Bridge, as the settings of their YAML (names from memory).

``recipe.trainer.strategy.tensor_model_parallel_size = 4`` is a setting by its path without the first name;
``Trainer(devices=8)`` is ``devices`` of the section that belongs to this class.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from simcluster.foreign.reading import Flag, PythonProgram, PythonSetting, one_line

_OF_CLASSES: Mapping[str, str] = {
    "Trainer": "trainer",
    "MegatronStrategy": "trainer.strategy",
    "FSDPStrategy": "trainer.strategy",
    "DistributedDataParallelConfig": "ddp",
    "OptimizerConfig": "optim.config",
    "MegatronMixedPrecision": "trainer.plugins",
    "MegatronCommOverlapCallback": "comm_overlap",
    "CommOverlapConfig": "comm_overlap",
    "TrainingConfig": "train",
    "GPTDatasetConfig": "dataset",
    "MockGPTDatasetConfig": "dataset",
}
"""Sections of the YAML, by the class whose arguments they hold."""

_DATA = re.compile(r"\w+DataModule")
_MODEL = re.compile(
    r"(?!TE|Fault|Logger|Checkpoint|Tokenizer|Profiling|RNG|Dist|Scheduler)\w*(?:Config|Provider|ModelProvider)\w*"
)
_RECIPE = re.compile(r"(?:(\w+)\.)?(\w*?)_?(?:pretrain|finetune)_(?:recipe|config)")
_OF_RECIPES: Mapping[str, str] = {
    "num_nodes": "trainer.num_nodes",
    "num_gpus_per_node": "trainer.devices",
    "tensor_parallelism": "trainer.strategy.tensor_model_parallel_size",
    "tensor_parallel": "trainer.strategy.tensor_model_parallel_size",
    "pipeline_parallelism": "trainer.strategy.pipeline_model_parallel_size",
    "pipeline_parallel": "trainer.strategy.pipeline_model_parallel_size",
    "virtual_pipeline_parallelism": "trainer.strategy.virtual_pipeline_model_parallel_size",
    "context_parallelism": "trainer.strategy.context_parallel_size",
    "expert_parallelism": "trainer.strategy.expert_model_parallel_size",
    "sequence_parallelism": "trainer.strategy.sequence_parallel",
    "sequence_parallel": "trainer.strategy.sequence_parallel",
    "global_batch_size": "data.global_batch_size",
    "micro_batch_size": "data.micro_batch_size",
    "seq_length": "data.seq_length",
    "peft_scheme": "peft",
}
"""Settings, by the parameters of recipe functions."""

_OUTER = ("recipe", "cfg", "config", "pretrain", "partial", "conf", "experiment")
_CLASS = "model.config._target_"
RECIPE = "model.provider"
"""The setting that names the recipe's model."""


def recipe_flags(program: PythonProgram, name: str) -> Iterator[Flag]:
    """The settings of a recipe, with their lines; ``name`` is the name of the file."""
    named: set[tuple[str, int]] = set()
    for setting in program.settings():
        for key in _names(setting):
            where = f"{name}:{setting.line}"
            if key not in (RECIPE, _CLASS):
                missing = "" if setting.known else "only a run of the program would tell it"
                text = f"{'.'.join(setting.path)}={setting.shown}"
                yield Flag(key, setting.value, one_line(text), where, missing)
            elif (key, setting.line) not in named:
                named.add((key, setting.line))
                called = setting.path[0]
                value = _model_of(called) if key == RECIPE else called
                yield Flag(key, value, one_line(called), where)


def _names(setting: PythonSetting) -> Iterator[str]:
    """The dotted names of a setting in the YAML; none for calls that are no part of a recipe."""
    first, *rest = setting.path
    if not setting.called:
        if len(setting.path) > 2 or first in _OUTER:
            yield ".".join(rest)
        return
    function = first.rpartition(".")[2]
    recipe = _RECIPE.fullmatch(".".join(first.split(".")[-2:])) or _RECIPE.fullmatch(function)
    if recipe is not None:
        yield RECIPE
        if rest and rest[0] in _OF_RECIPES:
            yield _OF_RECIPES[rest[0]]
    elif section := _section(function):
        if rest:
            yield f"{section}.{rest[0]}"
        if section == "model.config":
            yield _CLASS


def _section(function: str) -> str:
    """The section of a class; empty for one that is no part of a recipe."""
    if function in _OF_CLASSES:
        return _OF_CLASSES[function]
    if _DATA.fullmatch(function):
        return "data"
    return "model.config" if _MODEL.fullmatch(function) else ""


def _model_of(called: str) -> str:
    """The model of a recipe: ``llm.llama3_70b.pretrain_recipe``, ``llama3_70b_pretrain_config``."""
    recipe = _RECIPE.fullmatch(".".join(called.split(".")[-2:])) or _RECIPE.fullmatch(
        called.rpartition(".")[2]
    )
    return "" if recipe is None else (recipe[2] or recipe[1] or "")
