"""How a group of ranks lies on the hardware."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.link import Reach

Ranks: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A group's shape on the cluster: all that a collective's time depends on beside its bytes.

    ``ranks_per_host`` and ``fewest_per_host`` are the most and the fewest ranks on any of its hosts;
    ``rails`` is the number of ways out that the group can use on every one of its hosts: network cards, or
    inside a pod the devices themselves. ``inside`` and ``between`` say how far its ranks lie apart on one
    host and from host to host.

    A group that lies on several pods counts each pod as one host, whose ranks lie on ``hosts_inside`` real
    ones. ``kinds`` are the different kinds of hosts that it lies on, of those a mixed cluster has.
    """

    num_ranks: int
    num_hosts: int
    ranks_per_host: int
    fewest_per_host: int
    rails: int
    inside: Reach = Reach.HOST
    between: Reach = Reach.NETWORK
    hosts_inside: int = 1
    kinds: tuple[int, ...] = (0,)

    @classmethod
    def even(cls, num_hosts: int, ranks_per_host: int, rails: int | None = None) -> Span:
        """A group with equally many ranks on each of its hosts, one rail per rank unless told otherwise."""
        ranks = num_hosts * ranks_per_host
        return cls(
            ranks, num_hosts, ranks_per_host, ranks_per_host, ranks_per_host if rails is None else rails
        )

    def over(self, kinds: tuple[int, ...]) -> Span:
        """The same on hosts of these kinds."""
        return replace(self, kinds=kinds)

    @property
    def shares_ports(self) -> bool:
        """Whether what goes from host to host leaves through the same ports as what stays inside."""
        return self.between is Reach.POD


@dataclass(frozen=True, slots=True)
class Places:
    """Where ranks sit: rank r on host ``r // devices_per_host``, neighbours together.

    The device at place i of a host uses network card ``i * nics_per_host // devices_per_host``.
    ``devices_per_island`` and ``hosts_per_pod`` are 0 where there are no islands or pods.
    """

    devices_per_host: int
    nics_per_host: int
    devices_per_island: int = 0
    hosts_per_pod: int = 0

    def hosts(self, ranks: Ranks) -> Ranks:
        """The host of each rank."""
        return ranks // self.devices_per_host

    def nics(self, ranks: Ranks) -> Ranks:
        """The network card of each rank, counted over the cluster."""
        place = ranks % self.devices_per_host
        return self.hosts(ranks) * self.nics_per_host + place * self.nics_per_host // self.devices_per_host

    def islands(self, ranks: Ranks) -> Ranks:
        """The island of each rank; its host where there are none."""
        return ranks // (self.devices_per_island or self.devices_per_host)

    def pods(self, ranks: Ranks) -> Ranks:
        """The pod of each rank; its host where there are none."""
        return self.hosts(ranks) // (self.hosts_per_pod or 1)

    def reach(self, src: Ranks, dst: Ranks) -> Ranks:
        """How far each pair of ranks lies apart."""
        found = np.where(self.pods(src) == self.pods(dst), Reach.POD, Reach.NETWORK)
        found = np.where(self.hosts(src) == self.hosts(dst), Reach.HOST, found)
        if self.devices_per_island:
            found = np.where(self.islands(src) == self.islands(dst), Reach.ISLAND, found)
        return np.asarray(found, dtype=np.int64)

    def spans(self, groups: Ranks) -> tuple[list[Span], NDArray[np.intp]]:
        """The different spans among ``groups`` [num_groups, size], and for each group its span's index.

        Spans are sorted, so the answer does not depend on the order in which they are met.
        """
        ordered = np.sort(groups, axis=1)
        rows = np.empty((len(ordered), 7), dtype=np.int64)
        pods = self.pods(ordered)
        wide = (pods[:, 0] != pods[:, -1]) & bool(self.hosts_per_pod)
        for chosen, several_pods in ((~wide, False), (wide, True)):
            if chosen.any():
                rows[chosen] = self._rows(ordered[chosen], several_pods)
        different, index = np.unique(rows, axis=0, return_inverse=True)
        size = groups.shape[1]
        found = [
            Span(size, hosts, most, fewest, rails, Reach(inside), Reach(between), hosts_inside)
            for hosts, most, fewest, rails, inside, between, hosts_inside in different.tolist()
        ]
        return found, index.reshape(len(ordered))

    def _rows(self, ordered: Ranks, several_pods: bool) -> Ranks:
        """The fields of each group's span after the first; groups all on several pods, or all on one."""
        num_groups, size = ordered.shape
        hosts = self.pods(ordered) if several_pods else self.hosts(ordered)
        host_starts = np.flatnonzero(_starts(hosts))
        group_starts = np.searchsorted(host_starts, np.arange(num_groups) * size)
        on_host = np.diff(host_starts, append=num_groups * size)

        def different(values: Ranks) -> Ranks:
            return np.add.reduceat(_starts(values).ravel(), host_starts)

        num_hosts = np.diff(group_starts, append=host_starts.size)
        fewest = np.minimum.reduceat(on_host, group_starts)
        rails = np.minimum.reduceat(different(self.nics(ordered)), group_starts)
        hosts_inside = np.maximum.reduceat(different(self.hosts(ordered)), group_starts)
        inside = np.where(hosts_inside > 1, Reach.POD, Reach.HOST)
        if self.devices_per_island:
            islands = np.maximum.reduceat(different(self.islands(ordered)), group_starts)
            inside = np.where(islands == 1, Reach.ISLAND, inside)
        between = np.full(num_groups, Reach.NETWORK)
        if self.hosts_per_pod and not several_pods:
            between = np.where(num_hosts > 1, Reach.POD, between)
            rails = np.where(num_hosts > 1, fewest, rails)
        most = np.maximum.reduceat(on_host, group_starts)
        return np.stack([num_hosts, most, fewest, rails, inside, between, hosts_inside], axis=1)


def _starts(values: Ranks) -> NDArray[np.int64]:
    """1 where a row's value differs from the one before it, and at the start of every row."""
    starts = np.ones(values.shape, dtype=np.int64)
    starts[:, 1:] = values[:, 1:] != values[:, :-1]
    return starts
