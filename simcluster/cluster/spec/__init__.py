"""What the ``cluster:`` section and catalog files may say of devices, hosts, links, networks and changes."""

from simcluster.cluster.spec.cluster_spec import ClusterSpec, HostGroupSpec
from simcluster.cluster.spec.device_spec import DeviceSpec
from simcluster.cluster.spec.host_spec import HostSpec
from simcluster.cluster.spec.index_lists import IndexList, format_index_list, parse_index_list

__all__ = [
    "ClusterSpec",
    "DeviceSpec",
    "HostGroupSpec",
    "HostSpec",
    "IndexList",
    "format_index_list",
    "parse_index_list",
]
