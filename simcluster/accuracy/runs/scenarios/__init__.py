"""The scenario that a row of training runs describes; what the row does not say is assumed, and listed."""

from simcluster.accuracy.runs.scenarios.translate import (
    RunScenario,
    framework_of,
    run_scenario_yaml,
    scenario_of,
)
from simcluster.accuracy.runs.scenarios.words import known_words

__all__ = ["RunScenario", "framework_of", "known_words", "run_scenario_yaml", "scenario_of"]
