"""Hosts: devices, links and processors of a server, and the graph of places and routes inside it."""

from simcluster.cluster.host.host import Host, Protocol, slower
from simcluster.cluster.host.host_graph import CORE, SHARED, Wire, inside
from simcluster.cluster.host.host_routes import Table
from simcluster.cluster.host.processors import KernelOnCores, Processing

__all__ = [
    "CORE",
    "SHARED",
    "Host",
    "KernelOnCores",
    "Processing",
    "Protocol",
    "Table",
    "Wire",
    "inside",
    "slower",
]
