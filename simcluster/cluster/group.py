"""Groups of equal hosts: a cluster is one of them, or several one behind the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.host import Host
from simcluster.cluster.link import Reach
from simcluster.cluster.network import Lay
from simcluster.cluster.networks.switch import Switch
from simcluster.cluster.span import Places, Ranks, Span


@dataclass(frozen=True, slots=True, eq=False)
class HostGroup:
    """``num_hosts`` equal hosts, their network cards joined as ``network`` lays them.

    Groups of the same ``kind`` are equal but for their number of hosts.
    """

    host: Host
    num_hosts: int
    network: Lay = Switch
    kind: int = 0

    @property
    def num_devices(self) -> int:
        """Devices of all its hosts."""
        return self.num_hosts * self.host.num_devices

    @property
    def places(self) -> Places:
        """Where its ranks sit, counted from 0."""
        host = self.host
        return Places(
            host.num_devices,
            host.network.nics,
            host.island.num_devices if host.island else 0,
            host.pod.num_hosts if host.pod else 0,
        )


@dataclass(frozen=True, slots=True)
class MixedPlaces(Places):
    """Where the ranks of several groups sit: numbered group by group.

    What is inherited (``spans``, ``reach``) counts pods where any group has them; islands count in the spans
    of single groups only. ``first_rank`` and ``first_host`` [groups + 1] are where each group begins.
    """

    groups: tuple[HostGroup, ...] = ()
    first_rank: tuple[int, ...] = ()
    first_host: tuple[int, ...] = ()

    @classmethod
    def of(cls, groups: tuple[HostGroup, ...]) -> MixedPlaces:
        """The places of groups in their order."""
        ranks = np.cumsum([0, *(group.num_devices for group in groups)])
        hosts = np.cumsum([0, *(group.num_hosts for group in groups)])
        pods = max((group.places.hosts_per_pod for group in groups), default=0)
        return cls(0, 0, 0, pods, groups, tuple(ranks.tolist()), tuple(hosts.tolist()))

    def group_of(self, ranks: Ranks) -> Ranks:
        """The group of each rank."""
        found = np.searchsorted(np.array(self.first_rank), ranks, side="right") - 1
        return np.asarray(found, dtype=np.int64)

    def local(self, ranks: Ranks) -> Ranks:
        """The index of each rank's device on its host."""
        return self._each(ranks, lambda places, own: own % places.devices_per_host, [0] * len(self.groups))

    def hosts(self, ranks: Ranks) -> Ranks:
        """The host of each rank."""
        return self._each(ranks, lambda places, own: places.hosts(own), self.first_host)

    def nics(self, ranks: Ranks) -> Ranks:
        """The network card of each rank, counted over the cluster."""
        cards = [group.num_hosts * group.host.network.nics for group in self.groups]
        return self._each(ranks, lambda places, own: places.nics(own), np.cumsum([0, *cards]).tolist())

    def rails(self, ranks: Ranks) -> Ranks:
        """The index on its host of the network card of each rank."""
        return self._each(
            ranks, lambda places, own: places.nics(own) % places.nics_per_host, [0] * len(self.groups)
        )

    def islands(self, ranks: Ranks) -> Ranks:
        """The host of each rank: islands are told apart inside single groups only."""
        return self.hosts(ranks)

    def pods(self, ranks: Ranks) -> Ranks:
        """The pod of each rank; its host where there are none."""
        counts = [-(-group.num_hosts // (group.places.hosts_per_pod or 1)) for group in self.groups]
        return self._each(ranks, lambda places, own: places.pods(own), np.cumsum([0, *counts]).tolist())

    def spans(self, groups: Ranks) -> tuple[list[Span], NDArray[np.intp]]:
        """The different spans among ``groups`` [num_groups, size], and for each group its span's index."""
        member = self.group_of(groups)
        kinds = np.array([group.kind for group in self.groups])[member]
        different, which = np.unique(np.sort(kinds, axis=1), axis=0, return_inverse=True)
        single = (member == member[:, :1]).all(axis=1)
        found: dict[Span, int] = {}
        index = np.zeros(len(groups), dtype=np.intp)
        for number, met in enumerate(different):
            mine = which.reshape(-1) == number
            told = tuple(dict.fromkeys(met.tolist()))
            for group in range(-1, len(self.groups)):
                rows = mine & ((member[:, 0] == group) & single if group >= 0 else ~single)
                if not rows.any():
                    continue
                if group >= 0:
                    each, own = self.groups[group].places.spans(groups[rows] - self.first_rank[group])
                else:
                    each, own = Places.spans(self, groups[rows])
                numbers = [found.setdefault(span.over(told), len(found)) for span in each]
                index[rows] = np.array(numbers, dtype=np.intp)[own]
        return list(found), index

    def reach(self, src: Ranks, dst: Ranks) -> Ranks:
        """How far each pair of ranks lies apart."""
        found = Places.reach(self, src, dst)
        one, other = self.group_of(src), self.group_of(dst)
        for number, group in enumerate(self.groups):
            mine = (one == number) & (other == number)
            first = self.first_rank[number]
            found[mine] = group.places.reach(src[mine] - first, dst[mine] - first)
        return np.where(one == other, found, Reach.NETWORK)

    def _each(
        self, ranks: Ranks, what: Callable[[Places, Ranks], Ranks], offsets: tuple[int, ...] | list[int]
    ) -> Ranks:
        """What each group says of its ranks, behind what the groups before it have."""
        member = self.group_of(ranks)
        found = np.zeros(np.shape(ranks), dtype=np.int64)
        for number, group in enumerate(self.groups):
            mine = member == number
            found[mine] = what(group.places, ranks[mine] - self.first_rank[number]) + offsets[number]
        return found
