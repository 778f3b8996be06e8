"""The cluster: groups of equal hosts on one network, and how ranks lie on it.

Ranks are numbered group by group, host by host: with one group, rank r is device ``r % devices_per_host`` of
host ``r // devices_per_host``, unless the ranks have only some devices of a larger cluster, or others in
order (``on``, ``with_ranks_on``): then everything that is asked by rank is answered for the device that runs
it. Of the wiring other packages read placements (where groups of ranks are) and the topology (nodes, links,
routes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.device import NOMINAL, Device, DeviceArray, DeviceSpeed
from simcluster.cluster.host import Host, Protocol, slower
from simcluster.cluster.interconnect import (
    FabricBuilder,
    GroupPlacement,
    HostFabric,
    Level,
    Reach,
    Storage,
    Wiring,
    equal_rows,
    group_placement_of,
    number_by_appearance,
)
from simcluster.cluster.networks import Switch
from simcluster.cluster.topology import (
    BackgroundTraffic,
    HostGroup,
    JoinedTopology,
    LinkChange,
    LinkChanges,
    LinkChangeSpec,
    MixedRankPlaces,
    RankPlaces,
    Ranks,
    Topology,
)
from simcluster.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Assumption:
    """A figure that nobody has measured or published: its name, its value to read, and the reasoning."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """Groups of hosts, one of them or several of different kinds.

    Between groups traffic goes through the network cards of both ends. Collectives over hosts of several
    kinds are those of a library that speaks to all of them, at the slower figures of their own libraries.
    ``speeds`` are those of the ranks whose device is not as the host has it. Of a part of a ``whole``
    cluster, ``devices`` [num_devices] are the devices there that run its ranks; its topology is that of the
    whole. Two clusters are one only if they are the same object, which makes a cluster a cheap memo key.
    """

    groups: tuple[HostGroup, ...]
    assumptions: tuple[Assumption, ...] = ()
    speeds: Mapping[int, DeviceSpeed] = field(default_factory=dict)
    storage: Storage | None = None
    changed_links: LinkChanges = field(default_factory=LinkChanges)
    whole: Cluster | None = None
    devices: Ranks | None = None
    _devices: dict[tuple[int, DeviceSpeed], Device] = field(default_factory=dict, init=False, repr=False)
    _together: dict[tuple[int, ...], Host] = field(default_factory=dict, init=False, repr=False)
    _topologies: list[Topology] = field(default_factory=list, init=False, repr=False)
    _same_links: list[Cluster] = field(default_factory=list, init=False, repr=False)
    _pairs: dict[tuple[int, ...], GroupPlacement] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls,
        host: Host,
        num_hosts: int,
        assumptions: tuple[Assumption, ...] = (),
        speeds: Mapping[int, DeviceSpeed] | None = None,
        network: FabricBuilder = Switch,
        storage: Storage | None = None,
    ) -> Cluster:
        """The cluster of one group."""
        return cls((HostGroup(host, num_hosts, network),), assumptions, speeds or {}, storage)

    @property
    def host(self) -> Host:
        """The one kind of host of the cluster; ValueError in a mixed cluster, which has several."""
        if self.mixed:
            raise ValueError("a mixed cluster has hosts of several groups")
        return self.groups[0].host

    @property
    def mixed(self) -> bool:
        """Whether there are several groups."""
        return len(self.groups) > 1

    @property
    def kinds(self) -> tuple[Host, ...]:
        """The different hosts, by the kinds of their groups."""
        return tuple({group.kind: group.host for group in self.groups}.values())

    @property
    def num_hosts(self) -> int:
        """Hosts of all groups."""
        return sum(group.num_hosts for group in self.groups)

    @property
    def num_devices(self) -> int:
        """Devices of all hosts, which is the number of ranks."""
        return sum(group.num_devices for group in self.groups)

    def group_of(self, ranks: Ranks) -> Ranks:
        """The group of each rank, in the shape of ``ranks``."""
        return MixedRankPlaces.of(self.groups).group_of(ranks)

    def draw(self) -> Any:
        """The network over hosts as a plot, or the inside of the host if there is only one.

        Raises SimclusterError where plotly is not installed.
        """
        from simcluster.cluster.drawn_topology import draw_host, draw_network
        from simcluster.draw import tiers_plot

        nothing = np.zeros(0, dtype=np.int64)
        if self.topology.num_hosts > 1:
            rows, lines = draw_network(self.topology, nothing, None)
        else:
            rows, lines = draw_host(self.topology, 0, nothing)
        return tiers_plot(rows, lines, str(self))

    def _repr_html_(self) -> str:
        return f"<div>{escape(str(self))}</div>"

    def __str__(self) -> str:
        return " + ".join(
            f"{group.num_hosts:,} x {group.host.name} ({group.num_devices:,} x {group.host.device.name})"
            for group in self.groups
        )

    @property
    def topology(self) -> Topology:
        """Its nodes, links and routes; the same object each time."""
        if self.whole is not None:
            return self.whole.topology
        if self._same_links:
            return self.same_links.topology
        if not self._topologies:
            self._topologies.append(self._laid())
        return self._topologies[0]

    def _laid(self) -> Topology:
        if self.mixed:
            return JoinedTopology(self.groups)
        (group,) = self.groups
        dead = self.changed_links.dead
        return Topology(group.host, group.num_hosts, group.network, self.storage, dead)

    @property
    def link_changes(self) -> tuple[LinkChange, ...]:
        """Links that carry less or more, or take longer, for a while or for good."""
        return self.changed_links.changes

    @property
    def background(self) -> tuple[BackgroundTraffic, ...]:
        """What others send over links."""
        return self.changed_links.background

    @property
    def same_links(self) -> Cluster:
        """One object for all clusters that were made from it ``with_speeds``: what moves data between their
        devices is the same, and is worked out once.
        """
        return self._same_links[0] if self._same_links else self

    def with_speeds(self, speeds: Mapping[int, DeviceSpeed]) -> Cluster:
        """The cluster with these ``speeds`` instead of its own, and the very same links."""
        made = replace(self, speeds=speeds)
        made._same_links.append(self.same_links)
        return made

    def with_links(self, specs: Sequence[tuple[int, LinkChangeSpec]]) -> Cluster:
        """The cluster with changes of its links, each with its index among all changes.

        Raises PlanError for a pattern that fits no link, and for a lost link that nothing leads around.
        """
        if not specs:
            return self
        return replace(self, changed_links=LinkChanges.of(specs, self.topology))

    def on(self, hosts: Sequence[int]) -> Cluster:
        """The part of the cluster on these hosts, whose devices are ranks 0, 1, ... in the order given.

        As ``with_ranks_on``. Raises ValueError for a host that is not there or stands twice.
        """
        own = np.asarray(hosts, dtype=np.int64)
        if not self.mixed and (
            not own.size or own.min() < 0 or own.max() >= self.num_hosts or np.unique(own).size < own.size
        ):
            raise ValueError(f"no such part of {self.num_hosts} hosts: {list(hosts)}")
        size = self.groups[0].host.num_devices
        return self.with_ranks_on((own[:, np.newaxis] * size + np.arange(size)).reshape(-1))

    def with_ranks_on(self, devices: Ranks) -> Cluster:
        """The part of the cluster whose ranks 0, 1, ... are run by these devices [ranks], in their order.

        Links, what changes on them and what others send over them are those of the whole cluster. Raises
        ValueError for a device that is not there or stands twice.
        """
        if self.whole is not None or self.mixed:
            raise ValueError("a part of a cluster, or a mixed one, has no parts")
        own = np.asarray(devices, dtype=np.int64)
        if not own.size or own.min() < 0 or own.max() >= self.num_devices or np.unique(own).size < own.size:
            raise ValueError(f"no such part of {self.num_devices} devices: {own.tolist()}")
        hosts = np.unique(own // self.host.num_devices).size
        equal = replace(self.groups[0], num_hosts=hosts, num_ranks=own.size)
        speeds = {rank: self.speeds[at] for rank, at in enumerate(own.tolist()) if at in self.speeds}
        return replace(self, groups=(equal,), speeds=speeds, whole=self, devices=own)

    @property
    def hosts(self) -> Ranks:
        """Its hosts [num_hosts] by their index in the topology, in the order of the first rank of each."""
        if self.devices is None:
            return np.arange(self.num_hosts)
        hosts, first = np.unique(self.devices // self.host.num_devices, return_index=True)
        return np.asarray(hosts[np.argsort(first)], dtype=np.int64)

    def devices_of(self, ranks: Ranks) -> Ranks:
        """The device of the topology that runs each rank, in the shape of ``ranks``."""
        return ranks if self.devices is None else np.asarray(self.devices[ranks], dtype=np.int64)

    def placement(self, ranks: Ranks | Sequence[int]) -> GroupPlacement:
        """How one group of ranks [size] lies on the cluster; of a pair the same object each time."""
        pair = tuple(map(int, ranks)) if len(ranks) == 2 else ()
        if pair in self._pairs:
            return self._pairs[pair]
        placements, _ = self.placements(np.asarray(ranks, dtype=np.int64)[np.newaxis])
        if pair:
            self._pairs[pair] = placements[0]
        return placements[0]

    def placements(self, groups: Ranks) -> tuple[list[GroupPlacement], NDArray[np.intp]]:
        """The different placements of ``groups`` [num_groups, size], and for each group the index of its own.

        Members count in the order in which they are given. Placements are sorted, so the answer does not
        depend on the order of the groups.
        """
        groups = self.devices_of(groups)
        places = self._places
        at = places.hosts(groups)
        hosts, pods = number_by_appearance(at), number_by_appearance(places.pods(groups))
        parts = self.topology.network.places(at)
        own, rails = places.local(groups), places.rails(groups)
        kinds, islands = places.kinds(groups), places.islands(groups)
        # Where all devices are joined alike, only which places are the same tells groups apart.
        hardware = self.kinds
        alike_inside = all(host.joins_all_alike for host in hardware)
        beside = [number_by_appearance(own), number_by_appearance(rails)] if alike_inside else [own]
        first, index, signatures = equal_rows([*beside, hosts, pods, *parts])
        return [
            group_placement_of(
                signature,
                groups[row],
                hosts[row],
                pods[row],
                own[row],
                rails[row],
                None if islands is None else islands[row],
                any(hardware[kind].pod is not None for kind in np.unique(kinds[row]).tolist()),
                tuple(np.unique(kinds[row]).tolist()),
            )
            for row, signature in zip(first.tolist(), signatures, strict=True)
        ], index

    def device(self, rank: int) -> Device:
        """The device that runs ``rank``: one object for all of one speed; IndexError if there is none."""
        speed, kind = self.speed(rank), self._kind(rank)
        device = self.kinds[kind].device
        if speed == NOMINAL:
            return device
        if (kind, speed) not in self._devices:
            self._devices[kind, speed] = device.at(speed)
        return self._devices[kind, speed]

    def _kind(self, rank: int) -> int:
        """The kind of host that has the device of a rank."""
        for group in self.groups:
            if rank < group.num_devices:
                return group.kind
            rank -= group.num_devices
        raise IndexError(rank)

    def speed(self, rank: int) -> DeviceSpeed:
        """Speed of the device of ``rank`` relative to its file; IndexError if there is none."""
        if not 0 <= rank < self.num_devices:
            raise IndexError(f"rank {rank} of a cluster with {self.num_devices} devices")
        return self.speeds.get(rank, NOMINAL)

    def fleet(self, ranks: Sequence[int]) -> DeviceArray:
        """The devices that run ``ranks``, all of one kind of host, to be priced in one array operation."""
        speeds = [self.speed(rank) for rank in ranks]
        factors = [(speed.compute, speed.memory_bandwidth) for speed in speeds]
        compute, bandwidth = np.array(factors, dtype=np.float64).reshape(-1, 2).T
        return DeviceArray(self.kinds[self._kind(ranks[0])].device, compute, bandwidth)

    def hosts_of(self, ranks: Ranks) -> Ranks:
        """The host of each rank, in the shape of ``ranks``."""
        return self._places.hosts(self.devices_of(ranks))

    def pods_of(self, ranks: Ranks) -> Ranks:
        """The pod of each rank, in the shape of ``ranks``; its host where there are none."""
        return self._places.pods(self.devices_of(ranks))

    def pods_spanned(self, groups: Ranks) -> int:
        """The most pods that a row of ``groups`` has ranks in; hosts where there are no pods."""
        rows = np.sort(self.pods_of(groups), axis=1)
        return 1 + int((np.diff(rows, axis=1) != 0).sum(axis=1).max())

    def host_of(self, kinds: tuple[int, ...]) -> Host:
        """The host that collectives over these kinds are priced on: of several, the slower figures."""
        if kinds not in self._together:
            self._together[kinds] = slower([self.kinds[kind] for kind in kinds])
        return self._together[kinds]

    def hop_over(self, reach: Reach, protocol: Protocol, kinds: tuple[int, ...]) -> float:
        """Latency [s] of a step of a protocol between ranks ``reach`` apart, on hosts of these kinds."""
        if reach is Reach.NETWORK:
            return protocol.hops[Level.NETWORK]
        hosts = [self.kinds[kind] for kind in kinds]
        longer = max(self._latency(host, reach) - self._latency(host, _closest(host)) for host in hosts)
        return protocol.hops[Level.HOST] + longer

    @property
    def _places(self) -> RankPlaces:
        if self.mixed:
            return MixedRankPlaces.of(self.groups)
        return self.groups[0].places

    def _latency(self, host: Host, reach: Reach) -> float:
        if reach is Reach.NETWORK:
            return host.network.link.latency
        return _ports(host, reach).link.latency


def _closest(host: Host) -> Reach:
    """How far its closest devices lie apart."""
    return Reach.HOST if host.island is None else Reach.ISLAND


def _ports(host: Host, reach: Reach) -> HostFabric:
    """The links that join devices which lie so far apart."""
    if reach is Reach.ISLAND and host.island:
        return host.island.fabric
    if reach is Reach.POD and host.pod:
        return HostFabric(Wiring.SWITCH, host.pod.link)
    return host.fabric
