"""What a step loses because devices are not equally fast: stragglers and jitter of ``cluster.changes``."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from typing import Any

from simcluster.cluster import DeviceSpeed
from simcluster.engine import classes_on_links
from simcluster.simulation.compose import BuiltScenario, run_alone


def lost_to_unequal_devices(built: BuiltScenario, step_time_s: float) -> dict[str, Any]:
    """``unequal_devices`` of a summary: the step if all devices were as fast as they are in the mean, what
    the differences cost, and its share of the step. Nothing where all are equal, where tenants share the
    cluster, nor of inference and parameter servers.
    """
    cluster, ranks = built.cluster, range(built.program.mesh.num_ranks)
    if not cluster.speeds:
        return {}
    speeds = [cluster.speed(rank) for rank in ranks]
    if len(set(speeds)) < 2 or built.tenants or built.plan.pipeline.generation or built.plan.servers:
        return {}
    mean = DeviceSpeed(
        fmean(speed.compute for speed in speeds), fmean(speed.memory_bandwidth for speed in speeds)
    )
    equal = replace(cluster, speeds=dict.fromkeys(ranks, mean))
    classes, fabric = classes_on_links(built.program, equal, built.plan.execution.algorithms)
    timing = run_alone(replace(built, cluster=equal, classes=classes, fabric=fabric))
    equal_s = timing.end * 1e-9 / built.scenario.spec.run.steps
    lost = step_time_s - equal_s
    return {"unequal_devices": {"equal_step_time_s": equal_s, "lost_s": lost, "share": lost / step_time_s}}
