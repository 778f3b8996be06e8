"""What runs on a cluster."""

from __future__ import annotations

from simcluster.cluster import DEVICES_OWN, Cluster, DispatchTime
from simcluster.collectives import AUTOMATIC, Selection
from simcluster.deferred_dataclass import dataclass
from simcluster.engine.communication import Fabric
from simcluster.program import FREE_CALLS, HostCalls, Program, RankClasses


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A Program on a cluster, by itself or one of several that run at once."""

    program: Program
    """What its ranks run."""
    cluster: Cluster
    """The part of the cluster that they are."""
    classes: RankClasses
    """Which of them behave alike."""
    steps: int = 1
    """How often the Program is run."""
    dispatch: DispatchTime = DEVICES_OWN
    """Host time per operator."""
    algorithms: Selection = AUTOMATIC
    """The algorithms that collectives use."""
    fabric: Fabric | None = None
    """The links that are shared; None: every collective and transfer takes what it would alone."""
    host: HostCalls = FREE_CALLS
    """What the host spends on calling for collectives."""
