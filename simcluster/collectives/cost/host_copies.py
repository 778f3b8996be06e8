"""What copies between a device and its host cost, and the work of its cores, and what they load on links."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from simcluster.cluster import Cluster, HostPath, host_path_links
from simcluster.collectives.cost.algorithm_cost import AlgorithmChoice, LoadPhase
from simcluster.collectives.traffic import GRAIN, PhaseLoad
from simcluster.number_arrays import Ints


def copy_time(
    way: HostPath, rank: int, num_bytes: float, cluster: Cluster, bandwidth_limit: float
) -> AlgorithmChoice:
    """What a copy of a rank costs, alone on the nominal cluster: latency, then bytes over the slowest link.

    ``bandwidth_limit``: bytes/s that it asks for. Of ``HostPath.DECODE``, bytes are nanoseconds of a core.
    Where device and memory are one, a copy costs nothing. Raises ValueError if the host has no such way.
    """
    device = int(cluster.devices_of(np.array([rank]))[0])
    # All hosts of a kind are alike: what is asked of one is known of all.
    rate, latency = host_path_rate(
        way, device if cluster.mixed else device % cluster.host.num_devices, cluster
    )
    flows = (LoadPhase(num_bytes, min(rate, bandwidth_limit), 0),) if rate and num_bytes else ()
    return AlgorithmChoice(way, "none", latency, flows)


@lru_cache(maxsize=2**12)
def host_path_rate(way: HostPath, device: int, cluster: Cluster) -> tuple[float, float]:
    """Bytes/s of the slowest link of a path of ``device``, 0 if it needs none, and the path's latency [s]."""
    links, latency = host_path_links(way, cluster.topology, np.array([device]))
    rates = cluster.topology.rates(links[links >= 0])
    return float(rates.min()) if rates.size else 0.0, float(latency[0])


def copy_loads(way: HostPath, ranks: Ints, cluster: Cluster) -> PhaseLoad:
    """What copies of ``ranks`` load, one row each: equally much on every link of their path."""
    links, _ = host_path_links(way, cluster.topology, cluster.devices_of(ranks))
    ordered = np.sort(links, axis=1)
    used = ordered >= 0
    offsets = np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int64)
    return PhaseLoad(offsets, ordered[used], np.full(int(offsets[-1]), int(1 / GRAIN)), np.ones(len(ranks)))
