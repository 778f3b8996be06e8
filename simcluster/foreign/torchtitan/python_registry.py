"""torchtitan's ``config_registry.py``: a function for every job, whose calls are sections of the TOML.

Names are those of its latest releases (from memory): ``TrainingConfig(seq_len=1)`` is ``training.seq_len``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from simcluster.errors import Problem, ScenarioError, nearest
from simcluster.foreign.importer_interface import UserAdditions
from simcluster.foreign.reading import Flag, PythonProgram, PythonSetting, one_line

VARIABLE = "config"
"""The variable of ``--var`` that says which of the functions is meant."""

_SECTIONS: Mapping[str, str] = {
    "TrainingConfig": "training",
    "ParallelismConfig": "parallelism",
    "ActivationCheckpointConfig": "activation_checkpoint",
    "CompileConfig": "compile",
    "CommConfig": "comm",
    "DebugConfig": "debug",
    "ProfilingConfig": "profiling",
    "OptimizersContainer.Config": "optimizer",
    "LRSchedulersContainer.Config": "lr_scheduler",
    "CheckpointManager.Config": "checkpoint",
    "MetricsProcessor.Config": "metrics",
    "Validator.Config": "validation",
}
_FLOAT8 = re.compile(r"(?:Float8|MX)\w*Converter\.Config")
_OWN_SECTION = re.compile(r"(\w+?)(?:Container|Manager|Processor)?(?:\.Config|Config)")
_MODELS = re.compile(r"models[/\\]([a-z0-9_]+)[/\\]config_registry\.py$")
_NAME = re.compile(r"([a-z]+(?:_?v?\d+)?)_(.+)")


def read_registry(program: PythonProgram, name: str, given: UserAdditions) -> list[Flag]:
    """The settings of one function of a registry, under their names in a TOML.

    Which it is ``--var config=NAME`` says where there are several. Raises ScenarioError otherwise.
    """
    functions = {
        function: lines
        for function, lines in program.functions().items()
        if any(_within(setting, lines) and _is_job(setting) for setting in program.settings())
    }
    chosen = given.variables.get(VARIABLE)
    if chosen is None and len(functions) == 1:
        chosen = next(iter(functions))
    if chosen not in functions:
        listed = ", ".join(functions) or "none"
        near = nearest(chosen, functions) if chosen else ""
        hint = near or f"give --var {VARIABLE}=NAME with one of them"
        message = f"the file has these configurations of torchtitan: {listed}"
        raise ScenarioError(Problem(message, where=name, hint=hint if functions else ""))
    lines = functions[chosen]
    return [*_model(program, chosen, lines, name), *_settings(program, lines, name)]


def _is_job(setting: PythonSetting) -> bool:
    return setting.called and setting.path[0].endswith(("Trainer.Config", "JobConfig"))


def _within(setting: PythonSetting, lines: tuple[int, int]) -> bool:
    return lines[0] <= setting.line <= lines[1]


def _model(program: PythonProgram, function: str, lines: tuple[int, int], name: str) -> Iterator[Flag]:
    """The model by the folder of the file or the name of the function, and its flavor as it is called."""
    folder, said = _MODELS.search(name), _NAME.fullmatch(function)
    where = f"{name}:{lines[0]}"
    model = folder[1] if folder else said[1] if said else None
    if model is not None:
        yield Flag("model.name", model, one_line(f"def {function}"), where)
    for setting in program.first_arguments():
        if _within(setting, lines) and setting.path[0].endswith("model_registry"):
            missing = "" if setting.known else "only a run of the program would tell it"
            text = one_line(f"model_registry({setting.shown})")
            yield Flag("model.flavor", setting.value, text, f"{name}:{setting.line}", missing)


def _settings(program: PythonProgram, lines: tuple[int, int], name: str) -> Iterator[Flag]:
    """Arguments of calls, and what is assigned behind them: ``config.training.seq_len = 4096``."""
    for setting in program.settings():
        if not _within(setting, lines):
            continue
        where = f"{name}:{setting.line}"
        missing = "" if setting.known else "only a run of the program would tell it"
        text = one_line(f"{'.'.join(setting.path)}={setting.shown}")
        if not setting.called:
            yield Flag(".".join(setting.path[1:]), setting.value, text, where, missing)
        elif _FLOAT8.fullmatch(_class(setting)):
            kind = "float8" if "Float8" in setting.path[0] else "mx"
            yield Flag("model.converters", [kind], one_line(setting.path[0]), where)
            if len(setting.path) == 2:
                yield Flag(f"{kind}.{setting.path[1]}", setting.value, text, where, missing)
        elif len(setting.path) == 2 and not _is_job(setting) and (section := _section(_class(setting))):
            yield Flag(f"{section}.{setting.path[1]}", setting.value, text, where, missing)


def _class(setting: PythonSetting) -> str:
    """The class that a call makes, with the one around it: ``OptimizersContainer.Config``."""
    names = setting.path[0].split(".")
    return ".".join(names[-2:] if names[-1] == "Config" else names[-1:])


def _section(named: str) -> str:
    """The section of a class; for one that is not known a name made of its own."""
    own = _OWN_SECTION.fullmatch(named)
    return _SECTIONS.get(named) or (own[1].lower() if own else "")
