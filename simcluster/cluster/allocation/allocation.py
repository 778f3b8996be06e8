"""Which hosts and devices a job has, rank by rank."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from simcluster.cluster.allocation.msjob_spec import MSJobSpec
from simcluster.cluster.topology import Ranks
from simcluster.deferred_dataclass import dataclass


class MapBy(StrEnum):
    """How ranks are dealt to the slots of hosts, as mpirun's ``--map-by`` has it."""

    SLOT = "slot"
    """All slots of a host, then the next host."""

    NODE = "node"
    """One slot of every host, then the next of every host."""


@dataclass(frozen=True, slots=True)
class AllocatedHost:
    """A host of a job: its ``name``, and which of its ``devices`` run which ``ranks``, one by one.

    ``addresses`` are those of the devices' network cards, where a file has them; ``pod`` is the super-pod
    that the host is in, where a file says so. ``slots`` are the ranks that it has room for; 0: as many as it
    runs.
    """

    name: str
    ranks: tuple[int, ...]
    devices: tuple[int, ...]
    addresses: tuple[str, ...] = ()
    pod: str | None = None
    slots: int = 0


@dataclass(frozen=True, slots=True)
class Allocation:
    """Hosts in the order of a file, and what else the file says: ``notes`` in words.

    ``apart``: on hardware with pods, no two hosts reach each other by the links of one. ``job`` is what an
    MSJob says besides.
    """

    hosts: tuple[AllocatedHost, ...]
    notes: tuple[str, ...] = ()
    apart: bool = False
    job: MSJobSpec | None = None

    @classmethod
    def dealt(cls, names: Sequence[str], slots: Sequence[int], num_ranks: int, by: MapBy) -> Allocation:
        """Ranks on the slots of hosts, which are their devices 0, 1, ...; hosts may stay empty."""
        places = [(host, slot) for host, count in enumerate(slots) for slot in range(count)]
        if by is MapBy.NODE:
            places.sort(key=lambda place: (place[1], place[0]))
        ranks: list[list[int]] = [[] for _ in names]
        devices: list[list[int]] = [[] for _ in names]
        for rank, (host, slot) in enumerate(places[:num_ranks]):
            ranks[host].append(rank)
            devices[host].append(slot)
        parts = zip(names, ranks, devices, slots, strict=True)
        return cls(
            tuple(
                AllocatedHost(name, tuple(own), tuple(used), slots=count) for name, own, used, count in parts
            )
        )

    @property
    def num_ranks(self) -> int:
        """Ranks on all hosts."""
        return sum(len(host.ranks) for host in self.hosts)

    @property
    def dealt_by(self) -> MapBy | None:
        """How ranks are dealt to hosts in the order of their first ranks; None if not in order."""
        used = sorted((host for host in self.hosts if host.ranks), key=lambda host: min(host.ranks))
        pairs = [sorted(zip(host.ranks, host.devices, strict=True)) for host in used]
        for by in MapBy:
            dealt = self.dealt([""] * len(used), [len(own) for own in pairs], self.num_ranks, by)
            if [list(zip(host.ranks, host.devices, strict=True)) for host in dealt.hosts] == pairs:
                return by
        return None

    @property
    def num_hosts(self) -> int:
        """Hosts, those that run no rank too."""
        return len(self.hosts)

    @classmethod
    def of(cls, places: Ranks, devices: Ranks, pods: Ranks | None) -> Allocation:
        """Hosts with made-up addresses, in the order of their first ranks.

        ``places`` [ranks] is the host of each rank by its place in the network, ``devices`` [ranks] the one
        on it, ``pods`` [ranks] the pod, where there are pods.
        """
        made = []
        for place in dict.fromkeys(places.tolist()):
            ranks = np.flatnonzero(places == place)
            pod = f"super-pod-{int(pods[ranks[0]])}" if pods is not None else None
            own = tuple(devices[ranks].tolist())
            made.append(AllocatedHost(address_of(place), tuple(ranks.tolist()), own, pod=pod))
        return cls(tuple(made))

    def places(self, hosts_per_pod: int) -> tuple[int, ...]:
        """Where each host stands in the network, as its index there.

        Hosts stand in the order of their names (10.0.0.2 before 10.0.0.10, node2 before node10), whatever
        their order in the file; those of a pod next to each other, at the beginning of one of
        ``hosts_per_pod`` hosts. ValueError if there are more in it.
        """
        if not hosts_per_pod or (not self.apart and all(host.pod is None for host in self.hosts)):
            order = sorted(range(self.num_hosts), key=lambda at: natural_key(self.hosts[at].name))
            return tuple(np.argsort(order).tolist())
        pods: dict[str, list[int]] = {}
        for at, host in enumerate(self.hosts):
            pods.setdefault(host.name if host.pod is None else host.pod, []).append(at)
        places = [0] * self.num_hosts
        for number, name in enumerate(sorted(pods, key=natural_key)):
            members = sorted(pods[name], key=lambda at: natural_key(self.hosts[at].name))
            if len(members) > hosts_per_pod:
                raise ValueError(f"super-pod '{name}' has {len(members)} servers; at most {hosts_per_pod}")
            for position, at in enumerate(members):
                places[at] = number * hosts_per_pod + position
        return tuple(places)

    def devices(self, site_devices: int, hosts_per_pod: int) -> Ranks:
        """The device of the whole cluster that runs each rank [ranks], on hosts of so many devices."""
        devices = np.full(self.num_ranks, -1, dtype=np.int64)
        for host, place in zip(self.hosts, self.places(hosts_per_pod), strict=True):
            devices[list(host.ranks)] = place * site_devices + np.array(host.devices, dtype=np.int64)
        return devices


FIRST_NET = 100
"""The first octet behind 10 of made-up addresses: with three digits they are in dictionary order, too."""
NETS = 150
"""Values of such an octet."""


def address_of(place: int) -> str:
    """A made-up address of the host at a place of the network; their dictionary order is that of places."""
    high, middle, low = place // NETS**2, place // NETS % NETS, place % NETS
    return f"10.{FIRST_NET + high}.{FIRST_NET + middle}.{FIRST_NET + low}"


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts names as people do: numbers in them by their value."""
    return tuple(
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name) if part
    )
