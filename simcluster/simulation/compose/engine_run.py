"""What was built, in time: the engine's run of it."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.engine import Progress, Timing, Workload, run_together
from simcluster.program import HostCalls
from simcluster.simulation.compose.build import BuiltScenario


def run_alone(built: BuiltScenario, progress: Progress | None = None) -> Timing:
    """The engine's run of what was built, alone on the cluster."""
    return run_tenants([built], progress)[0]


def run_tenants(every: Sequence[BuiltScenario], progress: Progress | None = None) -> list[Timing]:
    """The engine's run of all at once; their links must be common."""
    return run_together([_workload(built) for built in every], progress)


def _workload(built: BuiltScenario) -> Workload:
    return Workload(
        built.program,
        built.cluster,
        built.classes,
        steps=built.scenario.spec.run.steps,
        dispatch=built.plan.execution.dispatch,
        algorithms=built.plan.execution.algorithms,
        fabric=built.fabric,
        host=HostCalls.of(built.plan),
    )
