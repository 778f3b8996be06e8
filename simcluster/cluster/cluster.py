"""The cluster: equal hosts on one network, and how ranks lie on it.

Rank r is device ``r % devices_per_host`` of host ``r // devices_per_host``. Paths and spans are the only
things the rooms above ask about the wiring, so that richer fabrics can answer the same questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.device import Device
from simcluster.cluster.fleet import Fleet
from simcluster.cluster.host import Host, Protocol
from simcluster.cluster.link import Fabric, Level, Path, Reach, Storage, Wiring
from simcluster.cluster.link_changes import Background, LinkChange, LinkChanges, LinkChangeSpec
from simcluster.cluster.network import Lay
from simcluster.cluster.networks.switch import Switch
from simcluster.cluster.placement import Placement, alike, appearing, placement
from simcluster.cluster.span import Places, Ranks, Span
from simcluster.cluster.speed import NOMINAL, Speed
from simcluster.cluster.topology import Topology


@dataclass(frozen=True, slots=True)
class Assumption:
    """A figure that nobody has measured or published: its name, its value to read, and the reasoning."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """``num_hosts`` hosts of one kind, their network cards joined as ``network`` lays them.

    ``speeds`` are those of the ranks whose device is not as the host has it. Two clusters are one only if
    they are the same object, which makes a cluster a cheap memo key.
    """

    host: Host
    num_hosts: int
    assumptions: tuple[Assumption, ...] = ()
    speeds: Mapping[int, Speed] = field(default_factory=dict)
    network: Lay = Switch
    storage: Storage | None = None
    changed_links: LinkChanges = field(default_factory=LinkChanges)
    _devices: dict[Speed, Device] = field(default_factory=dict, init=False, repr=False)
    _topologies: list[Topology] = field(default_factory=list, init=False, repr=False)

    @property
    def num_devices(self) -> int:
        """Devices of all hosts, which is the number of ranks."""
        return self.num_hosts * self.host.num_devices

    @property
    def topology(self) -> Topology:
        """Its nodes, links and routes; the same object each time."""
        if not self._topologies:
            parts = self.host, self.num_hosts, self.network, self.storage, self.changed_links.dead
            self._topologies.append(Topology(*parts))
        return self._topologies[0]

    @property
    def link_changes(self) -> tuple[LinkChange, ...]:
        """Links that carry less or more, or take longer, for a while or for good."""
        return self.changed_links.changes

    @property
    def background(self) -> tuple[Background, ...]:
        """What others send over links."""
        return self.changed_links.background

    def with_links(self, specs: Sequence[tuple[int, LinkChangeSpec]]) -> Cluster:
        """The cluster with changes of its links, each with its index among all changes.

        Raises PlanError for a pattern that fits no link, and for a lost link that nothing leads around.
        """
        if not specs:
            return self
        return replace(self, changed_links=LinkChanges.of(specs, self.topology))

    def placement(self, ranks: Ranks | Sequence[int]) -> Placement:
        """How one group of ranks [size] lies on the cluster."""
        found, _ = self.placements(np.asarray(ranks, dtype=np.int64)[np.newaxis])
        return found[0]

    def placements(self, groups: Ranks) -> tuple[list[Placement], NDArray[np.intp]]:
        """The different placements of ``groups`` [num_groups, size], and for each group the index of its own.

        Members count in the order in which they are given. Placements are sorted, so the answer does not
        depend on the order of the groups.
        """
        places = self._places
        hosts, pods = appearing(places.hosts(groups)), appearing(places.pods(groups))
        own = groups % self.host.num_devices
        parts = self.topology.network.places(places.hosts(groups))
        rails = own * self.host.network.nics // self.host.num_devices
        # Where all devices are joined alike, only which places are the same tells groups apart.
        beside = [appearing(own), appearing(rails)] if self.host.joins_all_alike else [own]
        first, index, signatures = alike([*beside, hosts, pods, *parts])
        islands = places.islands(groups) if self.host.island else None
        return [
            placement(
                signature,
                groups[row],
                hosts[row],
                pods[row],
                own[row],
                rails[row],
                None if islands is None else islands[row],
                self.host.pod is not None,
            )
            for row, signature in zip(first.tolist(), signatures, strict=True)
        ], index

    def device(self, rank: int) -> Device:
        """The device that runs ``rank``: one object for all of one speed; IndexError if there is none."""
        speed = self.speed(rank)
        if speed == NOMINAL:
            return self.host.device
        if speed not in self._devices:
            self._devices[speed] = self.host.device.at(speed)
        return self._devices[speed]

    def speed(self, rank: int) -> Speed:
        """How fast the device of ``rank`` is beside the host's; IndexError if there is none."""
        if not 0 <= rank < self.num_devices:
            raise IndexError(f"rank {rank} of a cluster with {self.num_devices} devices")
        return self.speeds.get(rank, NOMINAL)

    def fleet(self, ranks: Sequence[int]) -> Fleet:
        """The devices that run ``ranks``, to be priced beside each other."""
        speeds = [self.speed(rank) for rank in ranks]
        factors = [(speed.compute, speed.memory_bandwidth) for speed in speeds]
        compute, bandwidth = np.array(factors, dtype=np.float64).reshape(-1, 2).T
        return Fleet(self.host.device, compute, bandwidth)

    def hosts_of(self, ranks: Ranks) -> Ranks:
        """The host of each rank, in the shape of ``ranks``."""
        return self._places.hosts(ranks)

    def nics_of(self, ranks: Ranks) -> Ranks:
        """The network card of each rank, counted over the cluster, in the shape of ``ranks``."""
        return self._places.nics(ranks)

    def path(self, src: int, dst: int) -> Path:
        """The way from rank ``src`` to rank ``dst``; ValueError if they are the same."""
        found, index = self.paths(np.array([src]), np.array([dst]))
        return found[int(index[0])]

    def paths(self, src: Ranks, dst: Ranks) -> tuple[tuple[Path, ...], NDArray[np.intp]]:
        """The different ways between ranks, and for each pair of ``src`` and ``dst`` the index of its way."""
        if np.any(src == dst):
            raise ValueError("there is no path from a rank to itself")
        ways = tuple(Path(reach, 1, self._latency(reach), self._rate(reach, 2)) for reach in self._reaches)
        places = np.searchsorted(self._reaches, self._places.reach(src, dst))
        return ways, np.asarray(places, dtype=np.intp)

    def span(self, ranks: Ranks | Sequence[int]) -> Span:
        """How one group of ranks [size] lies on the hosts."""
        found, _ = self.spans(np.asarray(ranks, dtype=np.int64)[np.newaxis])
        return found[0]

    def spans(self, groups: Ranks) -> tuple[list[Span], NDArray[np.intp]]:
        """The different spans of ``groups`` [num_groups, size], and for each group the index of its span."""
        return self._places.spans(groups)

    def rate(self, level: Level, span: Span, protocol: Protocol | None = None) -> float:
        """Usable bytes/s on ``level`` for a group: out of each device, or of each network card.

        With a protocol, the part of it that the protocol reaches.
        """
        reach = span.between if level is Level.NETWORK else span.inside
        narrow = span.fewest_per_host if span.fewest_per_host > 1 else span.ranks_per_host
        share = protocol.shares[Level.NETWORK if reach is Reach.NETWORK else Level.HOST] if protocol else 1.0
        return self._rate(reach, narrow) * share

    def hop(self, level: Level, span: Span, protocol: Protocol) -> float:
        """Seconds of one step of a protocol that crosses ``level``, for a group.

        On a pod that counts as one host, the mean over a ring through its ranks, which goes from one real
        host to the next only as often as there are hosts.
        """
        if level is Level.NETWORK:
            return self._hop(span.between, protocol)
        if span.inside is not Reach.POD:
            return self._hop(span.inside, protocol)
        steps, wide = span.ranks_per_host - 1, span.hosts_inside - 1
        closer = self._hop(Reach.HOST, protocol)
        return closer + (self._hop(Reach.POD, protocol) - closer) * wide / steps

    def hop_over(self, reach: Reach, protocol: Protocol) -> float:
        """Seconds of one step of a protocol between ranks so far apart."""
        return self._hop(reach, protocol)

    @property
    def _places(self) -> Places:
        host = self.host
        return Places(
            host.num_devices,
            host.network.nics,
            host.island.num_devices if host.island else 0,
            host.pod.num_hosts if host.pod else 0,
        )

    @property
    def _reaches(self) -> list[Reach]:
        absent = {Reach.ISLAND: self.host.island is None, Reach.POD: self.host.pod is None}
        return [reach for reach in Reach if not absent.get(reach, False)]

    def _hop(self, reach: Reach, protocol: Protocol) -> float:
        if reach is Reach.NETWORK:
            return protocol.hops[Level.NETWORK]
        return protocol.hops[Level.HOST] + self._latency(reach) - self._latency(self._reaches[0])

    def _latency(self, reach: Reach) -> float:
        if reach is Reach.NETWORK:
            return self.host.network.link.latency
        return self._ports(reach).link.latency

    def _rate(self, reach: Reach, num_ranks: int) -> float:
        if reach is Reach.NETWORK:
            return self.host.network.link.rate
        return self._ports(reach).rate(num_ranks)

    def _ports(self, reach: Reach) -> Fabric:
        """The links that join devices which lie so far apart."""
        if reach is Reach.ISLAND and self.host.island:
            return self.host.island.fabric
        if reach is Reach.POD and self.host.pod:
            return Fabric(Wiring.SWITCH, self.host.pod.link)
        return self.host.fabric
