"""The classes of a Program's ranks on a cluster, and the links that they share."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.cluster import Cluster
from simcluster.collectives import Selection
from simcluster.engine.communication.choices import Choices
from simcluster.engine.communication.fabric import Fabric
from simcluster.engine.communication.link_loads import build_fabrics
from simcluster.program import (
    CollectiveRequests,
    Program,
    RankClasses,
    TenantLoad,
    load_program,
    partition_tenants,
)


def classes_on_links(
    program: Program, cluster: Cluster, algorithms: Selection, *, unfold: bool = False
) -> tuple[RankClasses, Fabric]:
    """The classes, told apart by what they load too, and the links.

    With ``unfold`` every rank is its own class. Raises PlanError for what cannot be done so.
    """
    return classes_together([(program, cluster, algorithms)], unfold=unfold)[0]


def classes_together(
    programs: Sequence[tuple[Program, Cluster, Selection]], *, unfold: bool = False
) -> list[tuple[RankClasses, Fabric]]:
    """The same for Programs that run at once, each on its part of one cluster; the links are common."""
    requests = [CollectiveRequests(program, algorithms) for program, _, algorithms in programs]
    loads = [
        load_program(program, cluster, request)
        for (program, cluster, _), request in zip(programs, requests, strict=True)
    ]
    tenants = [
        TenantLoad(program, cluster, loaded.loading)
        for (program, cluster, _), loaded in zip(programs, loads, strict=True)
    ]
    classes = partition_tenants(tenants, unfold=unfold)
    choices = [
        Choices(own, cluster, request)
        for own, (_, cluster, _), request in zip(classes, programs, requests, strict=True)
    ]
    return list(zip(classes, build_fabrics(list(zip(loads, choices, strict=True))), strict=True))
