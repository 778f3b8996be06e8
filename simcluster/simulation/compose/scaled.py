"""A built scenario on a cluster with other figures: the same Program, timed again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simcluster.engine import classes_on_links
from simcluster.garbage import no_collection
from simcluster.simulation.compose.build import BuiltScenario

if TYPE_CHECKING:
    from simcluster.cluster import ClusterScale


@no_collection()
def scale_built(built: BuiltScenario, scale: ClusterScale) -> BuiltScenario:
    """What was planned, on the cluster so scaled. Nothing is planned anew: only libraries may choose other
    algorithms for collectives.
    """
    cluster, execution = scale.of(built.cluster), built.plan.execution
    dispatch = execution.dispatch
    if dispatch.seconds is not None:
        dispatch = replace(dispatch, seconds=scale.overhead(dispatch.seconds))
    calls = scale.overhead(execution.collective_call)
    plan = replace(built.plan, execution=replace(execution, dispatch=dispatch, collective_call=calls))
    classes, fabric = classes_on_links(built.program, cluster, execution.algorithms)
    tenants = tuple(scale_built(tenant, scale) for tenant in built.tenants)
    return replace(built, cluster=cluster, plan=plan, classes=classes, fabric=fabric, tenants=tenants)
