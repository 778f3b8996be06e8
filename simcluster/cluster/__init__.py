"""Hardware: devices that price kernels, hosts, links, and how ranks lie on them.

cluster = load_cluster("dgx-h100", hosts=4)
cluster.device(0).price(works).total_ns
cluster.placement([0, 8, 16, 24])
"""

from simcluster.cluster.catalog import device_names, host_names, load_cluster, load_device, load_host
from simcluster.cluster.cluster import Assumption, Cluster
from simcluster.cluster.device import Device
from simcluster.cluster.device_spec import DeviceSpec
from simcluster.cluster.dispatch import DEVICES_OWN, Dispatch
from simcluster.cluster.fleet import Fleet
from simcluster.cluster.group import HostGroup
from simcluster.cluster.host import Host, Protocol
from simcluster.cluster.host_spec import HostSpec
from simcluster.cluster.inside import CORE
from simcluster.cluster.link import Fabric, Island, Level, Link, Network, Pod, Reach, Wiring
from simcluster.cluster.placement import Placement
from simcluster.cluster.placements import placements_of
from simcluster.cluster.price import Price, nanoseconds
from simcluster.cluster.processing import KernelOnCores, Processing
from simcluster.cluster.spec import ClusterSpec, HostGroupSpec
from simcluster.cluster.speed import NOMINAL, Speed
from simcluster.cluster.topology import Routes, Topology
from simcluster.cluster.ways import Way, way_links

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
