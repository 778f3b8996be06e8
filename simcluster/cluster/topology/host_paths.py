"""Paths of data inside a host, between a device, the host's memory, disks and storage; and work of its cores.

Copies over them load the same links as everything else that crosses these (DESIGN 4.8).
"""

from __future__ import annotations

import enum

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.interconnect import Numbers
from simcluster.cluster.topology.topology import Topology


class HostPath(enum.StrEnum):
    """Where from and where to; ``TO_NEXT_HOST`` leaves through the device's card, from the last host to the
    first. ``DECODE`` and ``WORK`` are work of the cores beside a device, in nanoseconds
    of a core, and ``STREAM`` is the way of what these work on.
    """

    FROM_DISKS = "disks to memory"
    FROM_STORAGE = "storage to memory"
    DECODE = "decode"
    TO_DEVICE = "memory to device"
    FROM_DEVICE = "device to memory"
    TO_DISKS = "memory to disks"
    TO_STORAGE = "memory to storage"
    TO_NEXT_HOST = "memory to the next host's"
    WORK = "work of the host"
    STREAM = "memory to cores"

    def ends(self, topology: Topology, ranks: Numbers) -> tuple[Numbers, Numbers]:
        """The nodes between which it leads for each of some devices; ValueError if hosts have none."""
        match self:
            case HostPath.FROM_DISKS:
                return topology.nearest(ranks, "disks"), topology.nearest(ranks, "memory")
            case HostPath.FROM_STORAGE:
                return topology.nearest(ranks, "storage"), topology.nearest(ranks, "memory")
            case HostPath.STREAM:
                return topology.nearest(ranks, "memory"), topology.nearest(ranks, "cores")
            case HostPath.DECODE | HostPath.WORK:
                return topology.nearest(ranks, "cores"), topology.nearest(ranks, "work")
            case HostPath.TO_DEVICE:
                return topology.nearest(ranks, "memory"), np.asarray(ranks, dtype=np.int64)
            case HostPath.FROM_DEVICE:
                return np.asarray(ranks, dtype=np.int64), topology.nearest(ranks, "memory")
            case HostPath.TO_DISKS:
                return topology.nearest(ranks, "memory"), topology.nearest(ranks, "disks")
            case HostPath.TO_STORAGE:
                return topology.nearest(ranks, "memory"), topology.nearest(ranks, "storage")
            case HostPath.TO_NEXT_HOST:
                following = (ranks + topology.host.num_devices) % topology.num_devices
                return topology.nearest(ranks, "memory"), topology.nearest(following, "memory")


def host_path_links(way: HostPath, topology: Topology, ranks: Numbers) -> tuple[Numbers, NDArray[np.float64]]:
    """The links of a path for each of some devices [ranks, most], padded with -1, and its latency [s].

    Raises ValueError if their hosts have no such path.
    """
    ranks = np.asarray(ranks, dtype=np.int64)
    rail = topology.card_of(topology.place_of(ranks)) if way is HostPath.TO_NEXT_HOST else None
    routes = topology.routes(*way.ends(topology, ranks), rail)
    return routes.links, routes.latency
