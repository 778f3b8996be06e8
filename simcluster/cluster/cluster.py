"""The cluster: equal hosts on one network, and how ranks lie on it.

Rank r is device ``r % devices_per_host`` of host ``r // devices_per_host``. Paths and spans are the only
things the rooms above ask about the wiring, so that richer fabrics can answer the same questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.device import Device
from simcluster.cluster.fleet import Fleet
from simcluster.cluster.host import Host, Protocol
from simcluster.cluster.link import Fabric, Level, Path, Reach, Wiring
from simcluster.cluster.span import Places, Ranks, Span
from simcluster.cluster.speed import NOMINAL, Speed


@dataclass(frozen=True, slots=True)
class Assumption:
    """A figure that nobody has measured or published: its name, its value to read, and the reasoning."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """``num_hosts`` hosts of one kind, every network card joined to every other by an ideal network.

    ``speeds`` are those of the ranks whose device is not as the host has it. Two clusters are one only if
    they are the same object, which makes a cluster a cheap memo key.
    """

    host: Host
    num_hosts: int
    assumptions: tuple[Assumption, ...] = ()
    speeds: Mapping[int, Speed] = field(default_factory=dict)
    _devices: dict[Speed, Device] = field(default_factory=dict, init=False, repr=False)

    @property
    def num_devices(self) -> int:
        """Devices of all hosts, which is the number of ranks."""
        return self.num_hosts * self.host.num_devices

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
