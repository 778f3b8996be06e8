"""Links and switches: what a link carries, families of links, how far apart the ranks of a group are, and
what every network fabric answers (trees of switches, reduction inside switches).
"""

from simcluster.cluster.interconnect.group_placement import (
    GroupPlacement,
    distinct_hosts,
    equal_rows,
    group_placement_of,
    number_by_appearance,
)
from simcluster.cluster.interconnect.in_network_reduction import SwitchReduction
from simcluster.cluster.interconnect.link import (
    HostFabric,
    HostNetwork,
    Island,
    Level,
    Link,
    Pod,
    Reach,
    Storage,
    Wiring,
)
from simcluster.cluster.interconnect.link_families import Ends, LinkFamily, NameBlock, NameTable, Numbers
from simcluster.cluster.interconnect.network_fabric import (
    CardRoutes,
    FabricBuilder,
    FabricCards,
    NetworkFabric,
    NetworkFabricSpec,
    ReducingSpec,
)
from simcluster.cluster.interconnect.share_by_count import ShareByCount
from simcluster.cluster.interconnect.switch_tiers import Tiers, check_cables, hashed

__all__ = [
    "CardRoutes",
    "Ends",
    "FabricBuilder",
    "FabricCards",
    "GroupPlacement",
    "HostFabric",
    "HostNetwork",
    "Island",
    "Level",
    "Link",
    "LinkFamily",
    "NameBlock",
    "NameTable",
    "NetworkFabric",
    "NetworkFabricSpec",
    "Numbers",
    "Pod",
    "Reach",
    "ReducingSpec",
    "ShareByCount",
    "Storage",
    "SwitchReduction",
    "Tiers",
    "Wiring",
    "check_cables",
    "distinct_hosts",
    "equal_rows",
    "group_placement_of",
    "hashed",
    "number_by_appearance",
]
