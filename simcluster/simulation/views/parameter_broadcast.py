"""The broadcast of initial parameters before the first step, from the first rank to the others."""

from __future__ import annotations

from typing import Any

from simcluster.collectives import Operation, collective_time
from simcluster.program import Category
from simcluster.simulation.compose import BuiltScenario


def summarise_parameter_broadcast(built: BuiltScenario) -> dict[str, Any]:
    """Bytes, seconds and number of the broadcasts of initial parameters; nothing unless they are asked for.

    As MindSpore's parameter_broadcast: one broadcast after another, of every parameter that all ranks of a
    stage hold whole; of others each rank makes its part from the common seed. That of the slowest stage
    counts. No step contains it.
    """
    if not built.scenario.spec.parallel.parameter_broadcast:
        return {}
    plan, cluster = built.plan, built.cluster
    axes = tuple(name for name, size in plan.mesh.axes if size > 1 and name != plan.stage_axis)
    placements, _ = cluster.placements(plan.mesh.groups(axes))
    wanted = plan.execution.algorithms.of(Operation.BROADCAST)
    stages = []
    for part in built.program.parts:
        sizes = [
            resident.num_bytes
            for resident in part.residents
            if resident.category is Category.PARAMETERS
            and resident.origin
            and resident.num_bytes
            and not resident.layout.axes
        ]
        seconds = sum(
            max(
                collective_time(Operation.BROADCAST, where, size, cluster, wanted).seconds
                for where in placements
            )
            for size in sizes
        )
        stages.append((seconds, sum(sizes), len(sizes)))
    seconds, num_bytes, count = max(stages)
    return {"parameter_broadcast": {"seconds": seconds, "bytes": num_bytes, "broadcasts": count}}
