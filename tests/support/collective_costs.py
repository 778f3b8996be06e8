"""Hosts and networks with round figures, on which a collective's time is reckoned by hand."""

from __future__ import annotations

from simcluster.cluster import (
    Cluster,
    GroupPlacement,
    Host,
    HostFabric,
    HostNetwork,
    Link,
    Protocol,
    Wiring,
    load_device,
)

BASE, HOST_HOP, NETWORK_HOP = 10e-6, 1e-6, 5e-6
HOST_RATE, NETWORK_RATE = 1e11, 1e10


def plain(wiring=Wiring.SWITCH, protocols=None, devices=8, nics=8, hosts=2048) -> Cluster:
    own = Protocol("only", BASE, (HOST_HOP, NETWORK_HOP), (1.0, 1.0))
    host = Host(
        name="plain",
        device=load_device("h100-sxm"),
        num_devices=devices,
        fabric=HostFabric(wiring, Link(2 * HOST_RATE, 0.5, 0.0)),
        network=HostNetwork(nics, Link(2 * NETWORK_RATE, 0.5, 0.0)),
        pcie=None,
        memory=0,
        protocols=protocols or {"default": (own,)},
    )
    return Cluster.of(host, hosts)


PLAIN = plain()
BIG = plain(devices=64, nics=64, hosts=1)


def even(hosts: int, mates: int, cluster: Cluster = PLAIN) -> GroupPlacement:
    """The first ranks of the first hosts."""
    size = cluster.host.num_devices
    return cluster.placement([host * size + mate for host in range(hosts) for mate in range(mates)])
