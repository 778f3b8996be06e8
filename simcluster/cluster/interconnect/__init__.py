"""Links and switches: what a link carries, families of links, how far apart the ranks of a group are, and
what every network fabric answers (trees of switches, reduction inside switches).
"""

from simcluster.cluster.interconnect.group_placement import Placement, alike, appearing, placement, told_apart
from simcluster.cluster.interconnect.in_network_reduction import Reduction
from simcluster.cluster.interconnect.link import (
    Fabric,
    Island,
    Level,
    Link,
    Network,
    Pod,
    Reach,
    Storage,
    Wiring,
)
from simcluster.cluster.interconnect.link_families import Block, Ends, Family, Numbering, Numbers
from simcluster.cluster.interconnect.network_fabric import (
    Crossing,
    Lay,
    NetworkFabric,
    NetworkFabricSpec,
    ReducingSpec,
    Site,
)
from simcluster.cluster.interconnect.switch_tiers import Tiers, check_cables, hashed

__all__ = [
    "Block",
    "Crossing",
    "Ends",
    "Fabric",
    "Family",
    "Island",
    "Lay",
    "Level",
    "Link",
    "Network",
    "NetworkFabric",
    "NetworkFabricSpec",
    "Numbering",
    "Numbers",
    "Placement",
    "Pod",
    "Reach",
    "ReducingSpec",
    "Reduction",
    "Site",
    "Storage",
    "Tiers",
    "Wiring",
    "alike",
    "appearing",
    "check_cables",
    "hashed",
    "placement",
    "told_apart",
]
