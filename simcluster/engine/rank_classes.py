"""The classes of a Program's ranks on a cluster, and the links that they share."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.cluster import Cluster
from simcluster.collectives import Selection
from simcluster.engine.choices import Choices
from simcluster.engine.fabric import Fabric
from simcluster.engine.loaded import fabrics
from simcluster.program import Classes, Lodger, Program, Wants, loaded, partitions


def classes_on_links(
    program: Program, cluster: Cluster, algorithms: Selection, *, unfold: bool = False
) -> tuple[Classes, Fabric]:
    """The classes, told apart by what they load too, and the links.

    With ``unfold`` every rank is its own class. Raises PlanError for what cannot be done so.
    """
    return classes_together([(program, cluster, algorithms)], unfold=unfold)[0]


def classes_together(
    programs: Sequence[tuple[Program, Cluster, Selection]], *, unfold: bool = False
) -> list[tuple[Classes, Fabric]]:
    """The same for Programs that run at once, each on its part of one cluster; the links are common."""
    wants = [Wants(program, algorithms) for program, _, algorithms in programs]
    found = [
        loaded(program, cluster, each) for (program, cluster, _), each in zip(programs, wants, strict=True)
    ]
    lodgers = [
        Lodger(program, cluster, each.loading)
        for (program, cluster, _), each in zip(programs, found, strict=True)
    ]
    classes = partitions(lodgers, unfold=unfold)
    choices = [
        Choices(own, cluster, each)
        for own, (_, cluster, _), each in zip(classes, programs, wants, strict=True)
    ]
    return list(zip(classes, fabrics(list(zip(found, choices, strict=True))), strict=True))
