"""What the ``cluster:`` section and catalog files may say of devices, hosts, links, networks and changes."""

from simcluster.cluster.spec.cluster_spec import ClusterSpec, HostGroupSpec
from simcluster.cluster.spec.device_spec import DeviceSpec
from simcluster.cluster.spec.host_spec import HostSpec
from simcluster.cluster.spec.index_lists import IndexList, listed, told

__all__ = ["ClusterSpec", "DeviceSpec", "HostGroupSpec", "HostSpec", "IndexList", "listed", "told"]
