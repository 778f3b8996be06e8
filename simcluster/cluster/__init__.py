"""Hardware: devices that price kernels, hosts, links, and how ranks lie on them.

cluster = load_cluster("dgx-h100", hosts=4)
cluster.device(0).price(works).total_ns
cluster.placement([0, 8, 16, 24])
"""

from simcluster.cluster.catalog import device_names, host_names, load_cluster, load_device, load_host
from simcluster.cluster.cluster import Assumption, Cluster
from simcluster.cluster.device import (
    DEVICES_OWN,
    NOMINAL,
    SCALE,
    Device,
    Dispatch,
    Fleet,
    Price,
    Speed,
    Taken,
    nanoseconds,
)
from simcluster.cluster.host import CORE, Host, KernelOnCores, Processing, Protocol
from simcluster.cluster.interconnect import (
    Fabric,
    Island,
    Level,
    Link,
    Network,
    Numbers,
    Placement,
    Pod,
    Reach,
    Wiring,
    alike,
)
from simcluster.cluster.mesh_placements import placements_of
from simcluster.cluster.spec import ClusterSpec, DeviceSpec, HostGroupSpec, HostSpec, IndexList, listed, told
from simcluster.cluster.topology import (
    TRUNK,
    Background,
    HostGroup,
    LinkChange,
    Ranks,
    Routes,
    Topology,
    Way,
    bisection,
    way_links,
)

__all__ = [
    "CORE",
    "DEVICES_OWN",
    "NOMINAL",
    "SCALE",
    "TRUNK",
    "Assumption",
    "Background",
    "Cluster",
    "ClusterSpec",
    "Device",
    "DeviceSpec",
    "Dispatch",
    "Fabric",
    "Fleet",
    "Host",
    "HostGroup",
    "HostGroupSpec",
    "HostSpec",
    "IndexList",
    "Island",
    "KernelOnCores",
    "Level",
    "Link",
    "LinkChange",
    "Network",
    "Numbers",
    "Placement",
    "Pod",
    "Price",
    "Processing",
    "Protocol",
    "Ranks",
    "Reach",
    "Routes",
    "Speed",
    "Taken",
    "Topology",
    "Way",
    "Wiring",
    "alike",
    "bisection",
    "device_names",
    "host_names",
    "listed",
    "load_cluster",
    "load_device",
    "load_host",
    "nanoseconds",
    "placements_of",
    "told",
    "way_links",
]
