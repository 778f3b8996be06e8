"""What was built, in time: the engine's run of it."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.engine import Lodger, Progress, Timing, run_together
from simcluster.program import HostCalls
from simcluster.simulation.compose.build import Built


def timed(built: Built, progress: Progress | None = None) -> Timing:
    """The engine's run of what was built, alone on the cluster."""
    return timed_together([built], progress)[0]


def timed_together(every: Sequence[Built], progress: Progress | None = None) -> list[Timing]:
    """The engine's run of all at once; their links must be common."""
    return run_together([_lodger(built) for built in every], progress)


def _lodger(built: Built) -> Lodger:
    return Lodger(
        built.program,
        built.cluster,
        built.classes,
        steps=built.scenario.spec.run.steps,
        dispatch=built.plan.dispatch,
        algorithms=built.plan.algorithms,
        fabric=built.fabric,
        host=HostCalls.of(built.plan),
    )
