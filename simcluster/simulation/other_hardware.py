"""The step of a built scenario on a cluster with other figures."""

from __future__ import annotations

from simcluster.cluster import ClusterScale
from simcluster.errors import SimclusterError
from simcluster.simulation.compose import BuiltScenario, run_alone, scale_built, simulate_tenants
from simcluster.simulation.run_scenario import run_built


def scaled_step(built: BuiltScenario, scale: ClusterScale) -> float:
    """Seconds of a step, of inference those of the whole answer, of what was planned on a cluster so scaled.

    Nothing is planned anew; with tenants they run beside it.
    """
    try:
        scaled = scale_built(built, scale)
        if scaled.plan.pipeline.generation is not None:
            return float(run_built(scaled).documents["summary"]["latency_s"])
        timing = simulate_tenants(scaled)[0].timing if scaled.tenants else run_alone(scaled)
    except SimclusterError as error:
        raise built.scenario.located(error) from None
    return timing.end * 1e-9 / built.scenario.spec.run.steps
