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
    ProgramLoads,
    RankClasses,
    TenantLoad,
    load_program,
    partition_tenants,
)


def classes_on_links(
    program: Program,
    cluster: Cluster,
    algorithms: Selection,
    *,
    unfold: bool = False,
    loads: ProgramLoads | None = None,
) -> tuple[RankClasses, Fabric]:
    """The classes, told apart by what they load too, and the links.

    With ``unfold`` every rank is its own class. ``loads`` are those of the Program, where they are known.
    Raises PlanError for what cannot be done so.
    """
    return _classes([(program, cluster, algorithms, loads)], unfold=unfold)[0]


def classes_together(
    programs: Sequence[tuple[Program, Cluster, Selection]], *, unfold: bool = False
) -> list[tuple[RankClasses, Fabric]]:
    """The same for Programs that run at once, each on its part of one cluster; the links are common."""
    return _classes([(*program, None) for program in programs], unfold=unfold)


def _classes(
    programs: Sequence[tuple[Program, Cluster, Selection, ProgramLoads | None]], *, unfold: bool
) -> list[tuple[RankClasses, Fabric]]:
    tenants, loaded = [], []
    for program, cluster, algorithms, known in programs:
        request = CollectiveRequests(program, algorithms)
        loads = known or load_program(program, cluster, request)
        tenants.append(TenantLoad(program, cluster, loads.loading))
        loaded.append((loads, cluster, request))
    classes = partition_tenants(tenants, unfold=unfold)
    parts = [
        (loads, Choices(own, cluster, request))
        for own, (loads, cluster, request) in zip(classes, loaded, strict=True)
    ]
    return list(zip(classes, build_fabrics(parts), strict=True))
