"""What the ``cluster:`` section and catalog files may say of devices, hosts, links, networks and changes."""

from simcluster.cluster.spec.cluster_spec import ClusterSpec
from simcluster.cluster.spec.device_spec import DeviceSpec, StreamingKernel
from simcluster.cluster.spec.host_group_spec import HostGroupSpec
from simcluster.cluster.spec.host_spec import HostSpec
from simcluster.cluster.spec.implementation_spec import (
    Direction,
    ImplementationSpec,
    implementation_files,
    load_implementation,
    memory_traffic,
    operator_passes,
)
from simcluster.cluster.spec.index_lists import IndexList, format_index_list, parse_index_list

__all__ = [
    "ClusterSpec",
    "DeviceSpec",
    "Direction",
    "HostGroupSpec",
    "HostSpec",
    "ImplementationSpec",
    "IndexList",
    "StreamingKernel",
    "format_index_list",
    "implementation_files",
    "load_implementation",
    "memory_traffic",
    "operator_passes",
    "parse_index_list",
]
