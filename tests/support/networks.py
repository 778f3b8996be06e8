"""Clusters of written networks."""

from __future__ import annotations

from simcluster.cluster import Cluster, ClusterSpec
from simcluster.document import validate_data

SQUARE = {
    "kind": "custom",
    "switches": ["a", "b", "c", "d"],
    "attach": [{"hosts": [0, 1], "switch": "a"}, {"hosts": [2, 3], "switch": "d"}],
    "links": [
        {"between": ["a", "b"], "bandwidth": "100 GB/s", "latency": "1 us"},
        {"between": ["a", "c"], "bandwidth": "100 GB/s", "latency": "1 us"},
        {"between": ["b", "d"], "bandwidth": "100 GB/s", "latency": "1 us", "count": 2},
        {"between": ["c", "d"], "bandwidth": "100 GB/s", "latency": "1 us"},
    ],
}
EXAMPLES = {
    "switch": {"kind": "switch"},
    "leaf_spine": {"kind": "leaf_spine", "hosts_per_leaf": 2, "oversubscription": 2},
    "fat_tree": {"kind": "fat_tree", "hosts_per_leaf": 1, "leaves_per_block": 2, "oversubscription": [1, 2]},
    "rail_optimised": {"kind": "rail_optimised", "hosts_per_unit": 2, "units_per_block": 1},
    "custom": SQUARE,
}


def cluster(network: dict, hosts: int = 4, host: str = "dgx-h100") -> Cluster:
    return validate_data({"use": host, "hosts": hosts, "network": network}, ClusterSpec).build()


REDUCES = {"operations": ["all_reduce"], "formats": ["bf16", "fp32"]}
TREES = ("switch", "leaf_spine", "fat_tree", "rail_optimised")
