"""The classes of a Program's ranks on a cluster, and the links that they share."""

from __future__ import annotations

from simcluster.cluster import Cluster
from simcluster.collectives import Selection
from simcluster.engine import Choices, Fabric, fabric
from simcluster.program import Classes, Program, partition
from simcluster.program.loading import loaded
from simcluster.program.wanted import Wants


def classes_on_links(
    program: Program, cluster: Cluster, algorithms: Selection, *, unfold: bool = False
) -> tuple[Classes, Fabric]:
    """The classes, told apart by what they load too, and the links.

    With ``unfold`` every rank is its own class. Raises PlanError for what cannot be done so.
    """
    wants = Wants(program, algorithms)
    found = loaded(program, cluster, wants)
    classes = partition(program, cluster, unfold=unfold, loading=found.loading)
    return classes, fabric(found, Choices(classes, cluster, wants))
