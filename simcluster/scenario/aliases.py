"""The names of other tools that a scenario may use: the table beside this file."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from simcluster.document import Document, Name, OtherNames, OtherNameSpec, Section, json_schema, validate
from simcluster.scenario.spec import ScenarioSpec

_TABLE = "aliases.yaml"


class AliasesSpec(Section):
    """The table."""

    tool: Name
    """Whose names they are."""

    names: dict[Name, OtherNameSpec]
    """Key path as that tool's users would write it -> what it stands for."""


@cache
def aliases() -> OtherNames:
    """All names that are accepted."""
    text = files("simcluster.scenario").joinpath(_TABLE).read_text(encoding="utf-8")
    table = validate(Document.parse(text, _TABLE), AliasesSpec)
    return OtherNames(table.tool, table.names)


def scenario_schema() -> dict[str, Any]:
    """The JSON schema of scenarios, with all names."""
    return aliases().in_schema(json_schema(ScenarioSpec))
