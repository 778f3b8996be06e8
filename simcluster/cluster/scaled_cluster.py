"""A cluster with one kind of its figures better or worse, everything else as it is: for what-if questions."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field, replace

from simcluster.cluster.cluster import Cluster
from simcluster.cluster.device import DeviceSpeed
from simcluster.cluster.host import Host, Protocol
from simcluster.cluster.interconnect import FabricBuilder, FabricCards, Link, NetworkFabric
from simcluster.cluster.topology import HostGroup
from simcluster.deferred_dataclass import dataclass


class HardwareFigure(enum.StrEnum):
    """A kind of figures of hardware; the value is what people call it."""

    COMPUTE = "compute rate"
    MEMORY_BANDWIDTH = "memory bandwidth"
    ISLAND = "links inside islands"
    HOST = "links inside hosts"
    POD = "links between hosts of a pod"
    NETWORK = "network bandwidth"
    HOST_COPIES = "PCIe and host memory"
    DISKS = "disks and storage"
    LATENCY = "latency of links"
    LAUNCH = "launch overhead"


def figures_of(cluster: Cluster) -> list[HardwareFigure]:
    """Those that a cluster has any of."""
    hosts, figure = cluster.kinds, HardwareFigure
    disks = any(host.disk_read or host.disk_write for host in hosts) or cluster.storage is not None
    there = {
        figure.ISLAND: any(host.island for host in hosts),
        figure.HOST: any(host.num_devices > 1 for host in hosts),
        figure.POD: any(host.pod and not host.shares_pod_switch for host in hosts),
        figure.NETWORK: cluster.num_hosts > 1,
        figure.HOST_COPIES: any(host.pcie for host in hosts),
        figure.DISKS: disks,
    }
    return [kind for kind in figure if there.get(kind, True)]


@dataclass(frozen=True)
class ClusterScale:
    """Rates of a ``figure`` times ``factor``; latencies and overheads, which are times, divided by it.

    All parts of one cluster that are scaled by one object stay parts of one: tenants share their links.
    """

    figure: HardwareFigure
    factor: float
    _hosts: dict[int, Host] = field(default_factory=dict, init=False, repr=False)
    _wholes: dict[int, Cluster] = field(default_factory=dict, init=False, repr=False)

    def of(self, cluster: Cluster) -> Cluster:
        """The cluster so changed: its topology, numbers of links and changes of them stay."""
        if id(cluster) not in self._wholes:
            storage = cluster.storage
            if storage is not None and self.figure is HardwareFigure.DISKS:
                rates = (storage.read, storage.write, storage.host)
                read, write, host = (rate * self.factor for rate in rates)
                storage = replace(storage, read=read, write=write, host=host)
            if storage is not None and self.figure is HardwareFigure.LATENCY:
                storage = replace(storage, latency=storage.latency / self.factor)
            groups = tuple(self._group(group) for group in cluster.groups)
            whole = None if cluster.whole is None else self.of(cluster.whole)
            self._wholes[id(cluster)] = replace(cluster, groups=groups, storage=storage, whole=whole)
        return self._wholes[id(cluster)]

    def overhead(self, seconds: float) -> float:
        """A time that the host or a framework spends on launching."""
        return seconds / self.factor if self.figure is HardwareFigure.LAUNCH else seconds

    def _group(self, group: HostGroup) -> HostGroup:
        if id(group.host) not in self._hosts:
            self._hosts[id(group.host)] = self._host(group.host)
        network = group.network
        if self.figure in (HardwareFigure.NETWORK, HardwareFigure.LATENCY):
            network = _ScaledNetwork(group.network, self._rate(HardwareFigure.NETWORK), self._slowness)
        return replace(group, host=self._hosts[id(group.host)], network=network)

    def _host(self, host: Host) -> Host:
        device, slowness = host.device, self._slowness
        compute, bandwidth = (
            self._rate(figure) for figure in (HardwareFigure.COMPUTE, HardwareFigure.MEMORY_BANDWIDTH)
        )
        if compute != 1 or bandwidth != 1:
            device = device.at(DeviceSpeed(compute, bandwidth))
        if self.figure is HardwareFigure.LAUNCH:
            launch, dispatch = (self.overhead(cost) for cost in (device.launch, device.dispatch))
            device = replace(device, launch=launch, dispatch=dispatch)
        inside, copies = self._rate(HardwareFigure.HOST), self._rate(HardwareFigure.HOST_COPIES)
        disks = self._rate(HardwareFigure.DISKS)
        pod, island = host.pod, host.island
        if pod is not None:
            over = inside if host.shares_pod_switch else self._rate(HardwareFigure.POD)
            pod = replace(pod, link=_link(pod.link, over, slowness))
        if island is not None:
            link = _link(island.fabric.link, self._rate(HardwareFigure.ISLAND), slowness)
            island = replace(island, fabric=replace(island.fabric, link=link))
        card = _link(host.network.link, self._rate(HardwareFigure.NETWORK), slowness)
        return replace(
            host,
            device=device,
            fabric=replace(host.fabric, link=_link(host.fabric.link, inside, slowness)),
            network=replace(
                host.network,
                link=card,
                hop=host.network.hop * slowness,
                added_hop=host.network.added_hop * slowness,
            ),
            pcie=None if host.pcie is None else _link(host.pcie, copies, slowness),
            protocols=_protocols(host.protocols, slowness),
            island=island,
            pod=pod,
            memory_bandwidth=host.memory_bandwidth * copies,
            between_sockets=host.between_sockets * copies,
            disk_read=host.disk_read * disks,
            disk_write=host.disk_write * disks,
        )

    def _rate(self, figure: HardwareFigure) -> float:
        return self.factor if figure is self.figure else 1.0

    @property
    def _slowness(self) -> float:
        """What latencies are multiplied with."""
        return 1 / self.factor if self.figure is HardwareFigure.LATENCY else 1.0


@dataclass(frozen=True)
class _ScaledNetwork:
    """Makes a fabric whose cables with figures of their own are scaled, too."""

    builder: FabricBuilder
    rate: float
    latency: float

    def __call__(self, site: FabricCards) -> NetworkFabric:
        return self.builder(replace(site, cable_rate=self.rate, cable_latency=self.latency))


def _link(link: Link, rate: float, latency: float) -> Link:
    return replace(link, bandwidth=link.bandwidth * rate, latency=link.latency * latency)


def _protocols(
    protocols: Mapping[str, tuple[Protocol, ...]], latency: float
) -> Mapping[str, tuple[Protocol, ...]]:
    if latency == 1:
        return protocols
    return {
        name: tuple(
            replace(
                protocol,
                base=protocol.base * latency,
                hops=(protocol.hops[0] * latency, protocol.hops[1] * latency),
            )
            for protocol in several
        )
        for name, several in protocols.items()
    }
