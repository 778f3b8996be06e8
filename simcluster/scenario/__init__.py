"""The scenario document as a whole: what users write, validated and turned into what it names."""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily
from simcluster.scenario.aliases import entry_schema, other_tool_names, scenario_schema
from simcluster.scenario.entry_files import has_entry_files
from simcluster.scenario.scenario import Scenario
from simcluster.scenario.spec import BoundSpec, ScenarioSpec

if TYPE_CHECKING:
    from simcluster.scenario.key_reference import key_references
    from simcluster.scenario.written import commented_yaml
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "key_reference": "key_references",
            "written": "commented_yaml",
        },
    )

__all__ = [
    "BoundSpec",
    "Scenario",
    "ScenarioSpec",
    "commented_yaml",
    "entry_schema",
    "has_entry_files",
    "key_references",
    "other_tool_names",
    "scenario_schema",
]
