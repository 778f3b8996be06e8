"""The cluster: equal hosts on one network, and how ranks lie on it.

Rank r is device ``r % devices_per_host`` of host ``r // devices_per_host``. Paths and spans are the only
things the rooms above ask about the wiring, so that richer fabrics can answer the same questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.device import Device
from simcluster.cluster.host import Host
from simcluster.cluster.link import Level, Path
from simcluster.cluster.span import Ranks, Span, spans


@dataclass(frozen=True, slots=True)
class Assumption:
    """A figure that nobody has measured or published: its name, its value to read, and the reasoning."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """``num_hosts`` hosts of one kind, every network card joined to every other by an ideal network.

    Two clusters are one only if they are the same object, which makes a cluster a cheap memo key.
    """

    host: Host
    num_hosts: int
    assumptions: tuple[Assumption, ...] = ()

    @property
    def num_devices(self) -> int:
        """Devices of all hosts, which is the number of ranks."""
        return self.num_hosts * self.host.num_devices

    def device(self, rank: int) -> Device:
        """The device that runs ``rank``; IndexError if there is none."""
        if not 0 <= rank < self.num_devices:
            raise IndexError(f"rank {rank} of a cluster with {self.num_devices} devices")
        return self.host.device

    def hosts_of(self, ranks: Ranks) -> Ranks:
        """The host of each rank, in the shape of ``ranks``."""
        return ranks // self.host.num_devices

    def nics_of(self, ranks: Ranks) -> Ranks:
        """The network card of each rank, counted over the cluster, in the shape of ``ranks``."""
        nics, devices = self.host.network.nics, self.host.num_devices
        return self.hosts_of(ranks) * nics + ranks % devices * nics // devices

    def path(self, src: int, dst: int) -> Path:
        """The way from rank ``src`` to rank ``dst``; ValueError if they are the same."""
        found, index = self.paths(np.array([src]), np.array([dst]))
        return found[int(index[0])]

    def paths(self, src: Ranks, dst: Ranks) -> tuple[tuple[Path, ...], NDArray[np.intp]]:
        """The different ways between ranks, and for each pair of ``src`` and ``dst`` the index of its way."""
        if np.any(src == dst):
            raise ValueError("there is no path from a rank to itself")
        fabric, nic = self.host.fabric, self.host.network.link
        ways = (
            Path(Level.HOST, 1, fabric.link.latency, fabric.rate(2)),
            Path(Level.NETWORK, 1, nic.latency, nic.rate),
        )
        return ways, (self.hosts_of(src) != self.hosts_of(dst)).astype(np.intp)

    def span(self, ranks: Ranks | Sequence[int]) -> Span:
        """How one group of ranks [size] lies on the hosts."""
        found, _ = self.spans(np.asarray(ranks, dtype=np.int64)[np.newaxis])
        return found[0]

    def spans(self, groups: Ranks) -> tuple[list[Span], NDArray[np.intp]]:
        """The different spans of ``groups`` [num_groups, size], and for each group the index of its span."""
        return spans(groups, self.host.num_devices, self.host.network.nics)

    def rate(self, level: Level, span: Span) -> float:
        """Usable bytes/s on ``level`` for a group: out of each device, or of each network card."""
        if level is Level.NETWORK:
            return self.host.network.link.rate
        narrow = span.fewest_per_host if span.fewest_per_host > 1 else span.ranks_per_host
        return self.host.fabric.rate(narrow)
