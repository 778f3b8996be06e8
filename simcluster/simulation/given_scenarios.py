"""The forms in which functions take a scenario, and the one conversion from them."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from simcluster.errors import ScenarioError
from simcluster.scenario import Scenario
from simcluster.simulation.views import ShardedGraph

GivenScenario: TypeAlias = "Scenario | ShardedGraph | Mapping[str, Any] | str | Path"
"""A scenario: itself, its file, plain data as a file would hold it, or a graph that was sharded."""


def scenario_of(given: GivenScenario) -> Scenario:
    """The scenario itself. Raises ScenarioError with every problem of a file, or of plain data, and for what
    is no scenario at all.
    """
    if isinstance(given, ShardedGraph):
        return given.scenario
    if isinstance(given, Mapping):
        return Scenario.of(given)
    if isinstance(given, Scenario):
        return given
    if not isinstance(given, (str, PathLike)):
        kind = type(given).__name__
        hint = "give its file, a Scenario, or a dict with the keys of a file"
        raise ScenarioError(f"a {kind} is no scenario", hint=hint)
    return Scenario.load(given)
