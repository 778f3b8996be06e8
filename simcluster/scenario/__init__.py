"""The scenario document as a whole: what users write, validated and turned into what it names."""

from simcluster.scenario.aliases import aliases, scenario_schema
from simcluster.scenario.scenario import Scenario
from simcluster.scenario.spec import BoundSpec, ScenarioSpec
from simcluster.scenario.written import commented

__all__ = ["BoundSpec", "Scenario", "ScenarioSpec", "aliases", "commented", "scenario_schema"]
