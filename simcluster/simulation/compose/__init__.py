"""From a scenario to a timed Program: plan, Program, classes and links, and the engine's run."""

from simcluster.simulation.compose.build import Built, planned, prepare
from simcluster.simulation.compose.engine_run import timed, timed_together
from simcluster.simulation.compose.tenants import tenancy, together

__all__ = ["Built", "planned", "prepare", "tenancy", "timed", "timed_together", "together"]
