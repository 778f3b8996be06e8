"""From a scenario to a timed Program: plan, Program, classes and links, and the engine's run."""

from simcluster.simulation.compose.build import Built, planned, prepare
from simcluster.simulation.compose.engine_run import accounted, gaps_of, timed, timed_together

__all__ = ["Built", "accounted", "gaps_of", "planned", "prepare", "timed", "timed_together"]
