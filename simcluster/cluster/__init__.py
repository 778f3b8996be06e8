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
    DeviceArray,
    DeviceSpeed,
    DispatchTime,
    Price,
    ResourceShare,
    nanoseconds,
)
from simcluster.cluster.host import CORE, Host, HostKernels, KernelOnCores, Protocol
from simcluster.cluster.interconnect import (
    GroupPlacement,
    HostFabric,
    HostNetwork,
    Island,
    Level,
    Link,
    Numbers,
    Pod,
    Reach,
    Wiring,
    equal_rows,
)
from simcluster.cluster.mesh_placements import placements_of
from simcluster.cluster.spec import (
    ClusterSpec,
    DeviceSpec,
    HostGroupSpec,
    HostSpec,
    IndexList,
    format_index_list,
    parse_index_list,
)
from simcluster.cluster.topology import (
    TRUNK,
    BackgroundTraffic,
    HostGroup,
    HostPath,
    LinkChange,
    Ranks,
    Routes,
    Topology,
    bisection_rate,
    host_path_links,
)

__all__ = [
    "CORE",
    "DEVICES_OWN",
    "NOMINAL",
    "SCALE",
    "TRUNK",
    "Assumption",
    "BackgroundTraffic",
    "Cluster",
    "ClusterSpec",
    "Device",
    "DeviceArray",
    "DeviceSpec",
    "DeviceSpeed",
    "DispatchTime",
    "GroupPlacement",
    "Host",
    "HostFabric",
    "HostGroup",
    "HostGroupSpec",
    "HostKernels",
    "HostNetwork",
    "HostPath",
    "HostSpec",
    "IndexList",
    "Island",
    "KernelOnCores",
    "Level",
    "Link",
    "LinkChange",
    "Numbers",
    "Pod",
    "Price",
    "Protocol",
    "Ranks",
    "Reach",
    "ResourceShare",
    "Routes",
    "Topology",
    "Wiring",
    "bisection_rate",
    "device_names",
    "equal_rows",
    "format_index_list",
    "host_names",
    "host_path_links",
    "load_cluster",
    "load_device",
    "load_host",
    "nanoseconds",
    "parse_index_list",
    "placements_of",
]
