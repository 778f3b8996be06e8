"""Groups of equal hosts: a cluster is one of them, or several one behind the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.host import Host
from simcluster.cluster.interconnect import FabricBuilder
from simcluster.cluster.networks import Switch
from simcluster.cluster.topology.rank_locations import RankPlaces, Ranks
from simcluster.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class HostGroup:
    """``num_hosts`` equal hosts, their network cards joined by the fabric that ``network`` makes.

    Groups of the same ``kind`` are equal but for their number of hosts. In a part of a cluster only
    ``num_ranks`` of the devices may be used; 0: all.
    """

    host: Host
    num_hosts: int
    network: FabricBuilder = Switch
    kind: int = 0
    num_ranks: int = 0

    @property
    def num_devices(self) -> int:
        """Devices of all its hosts that run ranks."""
        return self.num_ranks or self.num_hosts * self.host.num_devices

    @property
    def places(self) -> RankPlaces:
        """Where its ranks sit, counted from 0."""
        host = self.host
        return RankPlaces(
            host.num_devices,
            host.network.nics,
            host.island.num_devices if host.island else 0,
            host.pod.num_hosts if host.pod else 0,
        )


@dataclass(frozen=True, slots=True)
class MixedRankPlaces(RankPlaces):
    """Where the ranks of several groups sit: numbered group by group.

    ``first_rank`` and ``first_host`` [groups + 1] are where each group begins.
    """

    groups: tuple[HostGroup, ...] = ()
    first_rank: tuple[int, ...] = ()
    first_host: tuple[int, ...] = ()

    @classmethod
    def of(cls, groups: tuple[HostGroup, ...]) -> MixedRankPlaces:
        """The places of groups in their order."""
        ranks = np.cumsum([0, *(group.num_devices for group in groups)])
        hosts = np.cumsum([0, *(group.num_hosts for group in groups)])
        return cls(0, 0, 0, 0, groups, tuple(ranks.tolist()), tuple(hosts.tolist()))

    def group_of(self, ranks: Ranks) -> Ranks:
        """The group of each rank."""
        group = np.searchsorted(np.array(self.first_rank), ranks, side="right") - 1
        return np.asarray(group, dtype=np.int64)

    def local(self, ranks: Ranks) -> Ranks:
        """The index of each rank's device on its host."""
        return self._each(ranks, lambda places, own: places.local(own), [0] * len(self.groups))

    def hosts(self, ranks: Ranks) -> Ranks:
        """The host of each rank."""
        return self._each(ranks, lambda places, own: places.hosts(own), self.first_host)

    def rails(self, ranks: Ranks) -> Ranks:
        """The index on its host of the network card of each rank."""
        return self._each(ranks, lambda places, own: places.rails(own), [0] * len(self.groups))

    def islands(self, ranks: Ranks) -> None:
        """None: islands count inside single groups only."""

    def pods(self, ranks: Ranks) -> Ranks:
        """The pod of each rank; its host where there are none."""
        counts = [-(-group.num_hosts // (group.places.hosts_per_pod or 1)) for group in self.groups]
        return self._each(ranks, lambda places, own: places.pods(own), np.cumsum([0, *counts]).tolist())

    def kinds(self, ranks: Ranks) -> Ranks:
        """The kind of host that each rank is on."""
        return np.array([group.kind for group in self.groups])[self.group_of(ranks)]

    def _each(
        self, ranks: Ranks, what: Callable[[RankPlaces, Ranks], Ranks], offsets: tuple[int, ...] | list[int]
    ) -> Ranks:
        """What each group says of its ranks, behind what the groups before it have."""

        def answer(number: int, members: NDArray[np.bool_]) -> Ranks:
            own = ranks[members] - self.first_rank[number]
            return what(self.groups[number].places, own) + offsets[number]

        return by_group(self.group_of(ranks), answer)


def by_group(group: Ranks, answer: Callable[[int, NDArray[np.bool_]], Ranks]) -> Ranks:
    """What each group answers for its members, in the shape of ``group``; -1 for what is in no group.

    ``answer`` is asked with the number of a group and a mask of its members.
    """
    answers = np.full(group.shape, -1, dtype=np.int64)
    for number in range(int(group.max(initial=-1)) + 1):
        members = group == number
        if members.any():
            answers[members] = answer(number, members)
    return answers
