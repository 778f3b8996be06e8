"""Hosts: devices, links and processors of a server, and the graph of places and routes inside it."""

from simcluster.cluster.host.host import Host, Protocol, slower
from simcluster.cluster.host.host_graph import CORE, SHARED, Wire, build_host_graph
from simcluster.cluster.host.host_routes import HostRouteTable
from simcluster.cluster.host.processors import HostKernels, KernelOnCores

__all__ = [
    "CORE",
    "SHARED",
    "Host",
    "HostKernels",
    "HostRouteTable",
    "KernelOnCores",
    "Protocol",
    "Wire",
    "build_host_graph",
    "slower",
]
