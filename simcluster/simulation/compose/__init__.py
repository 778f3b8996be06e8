"""From a scenario to a timed Program: plan, Program, classes and links, and the engine's run."""

from simcluster.simulation.compose.build import (
    BuiltScenario,
    build_scenario,
    plan_scenario,
    run_alone,
    workload_of,
)
from simcluster.simulation.compose.scaled import scale_built
from simcluster.simulation.compose.tenants import simulate_tenants, summarise_tenants

__all__ = [
    "BuiltScenario",
    "build_scenario",
    "plan_scenario",
    "run_alone",
    "scale_built",
    "simulate_tenants",
    "summarise_tenants",
    "workload_of",
]
