"""A wire that carries real arrays between ranks and counts what it carried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.link import Level
from simcluster.cluster.span import Span

Array: TypeAlias = NDArray[Any]


class Wire:
    """Ranks on hosts, for running an algorithm's steps on arrays.

    ``ranks_per_host``: how many ranks of the group each host holds, in rank order; ``rails``: network cards
    that the group uses on every host, at most its fewest ranks. After a run ``num_rounds`` is the number of
    steps that followed one another, and ``moved`` says how many bytes went over the busiest link.
    """

    def __init__(self, ranks_per_host: Sequence[int], rails: int | None = None) -> None:
        self.ranks_per_host = tuple(ranks_per_host)
        self.rails = min(self.ranks_per_host) if rails is None else rails
        if not 1 <= self.rails <= min(self.ranks_per_host):
            raise ValueError(f"{self.rails} rails for hosts of {self.ranks_per_host} ranks")
        self.host_of = np.repeat(np.arange(len(self.ranks_per_host)), self.ranks_per_host).tolist()
        self.num_rounds = 0
        self._out_of_rank = np.zeros(self.num_ranks, dtype=np.int64)
        self._out_of_nic = np.zeros((len(self.ranks_per_host), self.rails), dtype=np.int64)

    @property
    def num_ranks(self) -> int:
        """Ranks of the group."""
        return len(self.host_of)

    @property
    def span(self) -> Span:
        """The group's shape, as a cluster would give it."""
        most, fewest = max(self.ranks_per_host), min(self.ranks_per_host)
        return Span(self.num_ranks, len(self.ranks_per_host), most, fewest, self.rails)

    def members(self, host: int) -> list[int]:
        """The ranks on ``host``, in order."""
        first = sum(self.ranks_per_host[:host])
        return list(range(first, first + self.ranks_per_host[host]))

    def rail_of(self, rank: int) -> int:
        """The network card beside ``rank``: its place among the host's ranks, spread over the rails."""
        mates = self.members(self.host_of[rank])
        return (rank - mates[0]) * self.rails // len(mates)

    def send(self, src: int, dst: int, data: Array, rail: int | None = None) -> Array:
        """What ``dst`` receives; between hosts through ``rail``, or through the card beside ``src``."""
        if self.host_of[src] == self.host_of[dst]:
            self._out_of_rank[src] += data.nbytes
        else:
            self._out_of_nic[self.host_of[src], self.rail_of(src) if rail is None else rail] += data.nbytes
        return data.copy()

    def moved(self, level: Level) -> int:
        """Bytes that went over the busiest link of ``level``."""
        busiest = self._out_of_rank if level is Level.HOST else self._out_of_nic
        return int(busiest.max())
