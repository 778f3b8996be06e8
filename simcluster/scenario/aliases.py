"""The names of other tools that a scenario may use: the table beside this file."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from simcluster.document import Document, OtherNames, OtherNameSpec, json_schema, validate_data
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
