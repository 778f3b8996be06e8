"""Arguments of a command line in a YAML file, as tests and model collections of Megatron keep them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.document import Document
from simcluster.errors import ScenarioError
from simcluster.foreign.reading.flag import Flag

SECTION = "MODEL_ARGS"


def read_argument_file(text: str, name: str) -> list[Flag] | None:
    """The arguments under ``MODEL_ARGS`` (``--num-layers: 12``); None if the text is no such file.

    ``true`` is an argument without a value, ``false`` and null one that is not there. References to
    variables of the environment, such as ``${DATA_PATH}``, stay open.
    """
    if f"{SECTION}:" not in text:
        return None
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
        missing = f"the file leaves open what {shown.strip()} is" if "${" in shown else ""
        flags.append(Flag(str(key), words or True, f"{key}{shown}", f"{mark.name}:{mark.line}", missing))
    return flags


def _words(value: Any) -> list[str]:
    """The words behind an argument."""
    values = value if isinstance(value, list) else str(value).split()
    return [str(word) for word in values]
