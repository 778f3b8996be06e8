"""The fabric of a whole cluster: nodes, links and routes between ranks, groups of hosts, where ranks are,
paths inside hosts, changes of links, bisection bandwidth.
"""

from simcluster.cluster.topology.bisection_bandwidth import bisection
from simcluster.cluster.topology.host_group import HostGroup, MixedPlaces
from simcluster.cluster.topology.host_paths import Way, way_links
from simcluster.cluster.topology.link_changes import Background, LinkChange, LinkChanges, LinkChangeSpec
from simcluster.cluster.topology.multi_group import TRUNK, JoinedTopology
from simcluster.cluster.topology.rank_locations import Places, Ranks
from simcluster.cluster.topology.topology import Routes, Topology

__all__ = [
    "TRUNK",
    "Background",
    "HostGroup",
    "JoinedTopology",
    "LinkChange",
    "LinkChangeSpec",
    "LinkChanges",
    "MixedPlaces",
    "Places",
    "Ranks",
    "Routes",
    "Topology",
    "Way",
    "bisection",
    "way_links",
]
