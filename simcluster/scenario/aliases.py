"""The names of other tools that a scenario may use: the table beside this file."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from simcluster.cluster import DeviceSpec, HostSpec
from simcluster.document import (
    CatalogSection,
    Document,
    OtherNames,
    OtherNameSpec,
    json_schema,
    validate_data,
)
from simcluster.model import ModelSpec
from simcluster.plan import FrameworkSpec
from simcluster.scenario.axis_names import with_long_names
from simcluster.scenario.spec import ScenarioSpec

_TABLE = "aliases.yaml"


@cache
def other_tool_names() -> OtherNames:
    """All names that are accepted."""
    text = files("simcluster.scenario").joinpath(_TABLE).read_text(encoding="utf-8")
    return OtherNames(
        {
            name: (tool, validate_data(meant, OtherNameSpec, f"{_TABLE}: {name}"))
            for tool, names in Document.parse(text, _TABLE).data.items()
            for name, meant in names.items()
        },
        with_long_names,
    )


def scenario_schema() -> dict[str, Any]:
    """The JSON schema of scenarios, with all names."""
    return other_tool_names().in_schema(json_schema(ScenarioSpec))


ENTRIES: dict[str, type[CatalogSection]] = {
    "model": ModelSpec,
    "framework": FrameworkSpec,
    "host": HostSpec,
    "device": DeviceSpec,
}
"""What a file in place of a catalog entry holds, by the key that names it."""


def entry_schema(kind: str) -> dict[str, Any]:
    """The JSON schema of a file in place of a catalog entry; ``kind`` is one of ``ENTRIES``."""
    return json_schema(ENTRIES[kind])
