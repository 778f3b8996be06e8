"""Where the groups of a mesh are on a cluster, computed once for all callers."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.cluster import Cluster
from simcluster.cluster.interconnect import GroupPlacement
from simcluster.layout import Mesh


@lru_cache(maxsize=128)
def placements_of(
    cluster: Cluster, mesh: Mesh, axes: tuple[str, ...]
) -> tuple[tuple[GroupPlacement, ...], NDArray[np.int64]]:
    """The different placements of all groups over ``axes``, and the index of each group's own [groups].

    Groups are in the order of ``Mesh.groups``. The array is shared and read-only.
    """
    placements, index = cluster.placements(mesh.groups(axes))
    index = index.astype(np.int64)
    index.setflags(write=False)
    return tuple(placements), index
