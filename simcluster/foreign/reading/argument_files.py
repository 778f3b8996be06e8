"""Arguments of a command line in a YAML file, as Megatron, its tests and its model collections have them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simcluster.document import Document
from simcluster.errors import Problem, ScenarioError
from simcluster.foreign.reading.flag import Flag
from simcluster.foreign.reading.settings_files import read_settings

SECTION = "MODEL_ARGS"
_VARIABLE = re.compile(r"\$\{(\w+)[^}]*\}")


def read_argument_file(text: str, name: str, variables: Mapping[str, str]) -> list[Flag] | None:
    """The arguments under ``MODEL_ARGS`` (``--num-layers: 12``); None if the text is no such file.

    ``true`` is an argument without a value, ``false`` and null one that is not there. References to
    variables of the environment, such as ``${DATA_PATH}``, stay open unless ``variables`` has them.
    """
    if f"{SECTION}:" not in text:
        return None
    if unused := [variable for variable in variables if f"${{{variable}}}" not in text]:
        raise ScenarioError(Problem(f"the file has no variable '{unused[0]}'", where="--var"))
    for variable, value in variables.items():
        text = text.replace(f"${{{variable}}}", value)
    try:
        document = Document.parse(text, name)
    except ScenarioError:
        return None
    section = document.data.get(SECTION) if isinstance(document.data, Mapping) else None
    if not isinstance(section, Mapping) or not any(str(key).startswith("--") for key in section):
        return None
    flags = []
    for key, value in section.items():
        if value is None or value is False:
            continue
        mark = document.mark((SECTION, key))
        words = [] if value is True else _words(value)
        shown = f" {' '.join(words)}" if words else ""
        open_ = _VARIABLE.search(shown)
        missing = f"the file leaves open what {open_[0]} is; give --var {open_[1]}=VALUE" if open_ else ""
        flags.append(Flag(str(key), words or True, f"{key}{shown}", f"{mark.name}:{mark.line}", missing))
    return flags


_SECTIONS = ("language_model", "model_parallel")


def read_configuration_file(text: str, name: str) -> list[Flag] | None:
    """The arguments of a file for Megatron's ``--yaml-cfg``; None if the text is no such file.

    Those of the model and of parallelism stand in sections, with the names of Megatron-Core's configuration:
    a number of query groups counts there without a switch. null is an argument that is not there.
    """
    if not all(f"{section}:" in text for section in _SECTIONS):
        return None
    try:
        settings = read_settings(text, name)
    except ScenarioError:
        return None
    flags = []
    for setting in settings:
        section, _, rest = setting.name.partition(".")
        key = rest if section in _SECTIONS else setting.name
        if setting.value is None and not setting.missing:
            continue
        if key == "num_query_groups":
            flags.append(replace(setting, name="--group-query-attention", value=True))
        words = [str(word) for word in setting.value] if isinstance(setting.value, list) else setting.value
        flags.append(replace(setting, name=f"--{key.replace('_', '-')}", value=words))
    return flags


def _words(value: Any) -> list[str]:
    """The words behind an argument."""
    values = value if isinstance(value, list) else str(value).split()
    return [str(word) for word in values]
