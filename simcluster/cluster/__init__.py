"""Hardware: devices that price kernels, hosts, links, and how ranks lie on them.

cluster = load_cluster("dgx-h100", hosts=4)
cluster.device(0).price(works).total_ns
cluster.placement([0, 8, 16, 24])
"""

from typing import TYPE_CHECKING

from simcluster.cluster.allocation import (
    MSJOB_PORT,
    AllocatedHost,
    AllocatedSite,
    Allocation,
    AllocationFormat,
    MapBy,
    MSJobSpec,
    ReplicaSpec,
    allocation_formats,
)
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
    EfficiencyCurve,
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
    ShareByCount,
    Wiring,
    equal_rows,
)
from simcluster.cluster.mesh_placements import placements_of
from simcluster.cluster.spec import (
    ClusterSpec,
    DeviceSpec,
    Direction,
    HostGroupSpec,
    HostSpec,
    ImplementationSpec,
    IndexList,
    StreamingKernel,
    format_index_list,
    implementation_files,
    load_implementation,
    memory_traffic,
    operator_passes,
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
from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.cluster.drawn_topology import LinkUse, Tiers, draw_host, draw_network
    from simcluster.cluster.scaled_cluster import ClusterScale, HardwareFigure, figures_of
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "drawn_topology": "LinkUse Tiers draw_host draw_network",
            "scaled_cluster": "ClusterScale HardwareFigure figures_of",
        },
    )

__all__ = [
    "CORE",
    "DEVICES_OWN",
    "MSJOB_PORT",
    "NOMINAL",
    "SCALE",
    "TRUNK",
    "AllocatedHost",
    "AllocatedSite",
    "Allocation",
    "AllocationFormat",
    "Assumption",
    "BackgroundTraffic",
    "Cluster",
    "ClusterScale",
    "ClusterSpec",
    "Device",
    "DeviceArray",
    "DeviceSpec",
    "DeviceSpeed",
    "Direction",
    "DispatchTime",
    "EfficiencyCurve",
    "GroupPlacement",
    "HardwareFigure",
    "Host",
    "HostFabric",
    "HostGroup",
    "HostGroupSpec",
    "HostKernels",
    "HostNetwork",
    "HostPath",
    "HostSpec",
    "ImplementationSpec",
    "IndexList",
    "Island",
    "KernelOnCores",
    "Level",
    "Link",
    "LinkChange",
    "LinkUse",
    "MSJobSpec",
    "MapBy",
    "Numbers",
    "Pod",
    "Price",
    "Protocol",
    "Ranks",
    "Reach",
    "ReplicaSpec",
    "ResourceShare",
    "Routes",
    "ShareByCount",
    "StreamingKernel",
    "Tiers",
    "Topology",
    "Wiring",
    "allocation_formats",
    "bisection_rate",
    "device_names",
    "draw_host",
    "draw_network",
    "equal_rows",
    "figures_of",
    "format_index_list",
    "host_names",
    "host_path_links",
    "implementation_files",
    "load_cluster",
    "load_device",
    "load_host",
    "load_implementation",
    "memory_traffic",
    "nanoseconds",
    "operator_passes",
    "parse_index_list",
    "placements_of",
]
