"""Hardware: devices that price kernels, hosts, links, and how ranks lie on them.

cluster = load_cluster("dgx-h100", hosts=4)
cluster.device(0).price(works).total_ns
cluster.placement([0, 8, 16, 24])
"""

from simcluster.cluster.catalog import device_names, host_names, load_cluster, load_device, load_host
from simcluster.cluster.cluster import Assumption, Cluster
from simcluster.cluster.device.device import Device
from simcluster.cluster.device.device_array import Fleet
from simcluster.cluster.device.dispatch_time import DEVICES_OWN, Dispatch
from simcluster.cluster.device.price import Price, nanoseconds
from simcluster.cluster.device.speed import NOMINAL, Speed
from simcluster.cluster.host.host import Host, Protocol
from simcluster.cluster.host.host_graph import CORE
from simcluster.cluster.host.processors import KernelOnCores, Processing
from simcluster.cluster.interconnect.group_placement import Placement
from simcluster.cluster.interconnect.link import Fabric, Island, Level, Link, Network, Pod, Reach, Wiring
from simcluster.cluster.mesh_placements import placements_of
from simcluster.cluster.spec.cluster_spec import ClusterSpec, HostGroupSpec
from simcluster.cluster.spec.device_spec import DeviceSpec
from simcluster.cluster.spec.host_spec import HostSpec
from simcluster.cluster.topology.host_group import HostGroup
from simcluster.cluster.topology.host_paths import Way, way_links
from simcluster.cluster.topology.topology import Routes, Topology

__all__ = [
    "CORE",
    "DEVICES_OWN",
    "NOMINAL",
    "Assumption",
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
    "Island",
    "KernelOnCores",
    "Level",
    "Link",
    "Network",
    "Placement",
    "Pod",
    "Price",
    "Processing",
    "Protocol",
    "Reach",
    "Routes",
    "Speed",
    "Topology",
    "Way",
    "Wiring",
    "device_names",
    "host_names",
    "load_cluster",
    "load_device",
    "load_host",
    "nanoseconds",
    "placements_of",
    "way_links",
]
