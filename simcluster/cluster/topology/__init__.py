"""The fabric of a whole cluster: nodes, links and routes between ranks, groups of hosts, where ranks are,
paths inside hosts, changes of links, bisection bandwidth.
"""

from simcluster.cluster.topology.bisection_bandwidth import bisection_rate
from simcluster.cluster.topology.host_group import HostGroup, MixedRankPlaces
from simcluster.cluster.topology.host_paths import HostPath, host_path_links
from simcluster.cluster.topology.link_changes import (
    BackgroundTraffic,
    LinkChange,
    LinkChanges,
    LinkChangeSpec,
)
from simcluster.cluster.topology.multi_group import TRUNK, JoinedTopology
from simcluster.cluster.topology.rank_locations import RankPlaces, Ranks
from simcluster.cluster.topology.topology import Routes, Topology

__all__ = [
    "TRUNK",
    "BackgroundTraffic",
    "HostGroup",
    "HostPath",
    "JoinedTopology",
    "LinkChange",
    "LinkChangeSpec",
    "LinkChanges",
    "MixedRankPlaces",
    "RankPlaces",
    "Ranks",
    "Routes",
    "Topology",
    "bisection_rate",
    "host_path_links",
]
