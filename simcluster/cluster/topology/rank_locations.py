"""Where the ranks of a cluster are: host, device, network card, island and pod."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass

Ranks: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RankPlaces:
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

    def local(self, ranks: Ranks) -> Ranks:
        """The index of each rank's device on its host."""
        return ranks - self.hosts(ranks) * self.devices_per_host  # several times as fast as a remainder

    def rails(self, ranks: Ranks) -> Ranks:
        """The index on its host of the network card of each rank."""
        return self.local(ranks) * self.nics_per_host // self.devices_per_host

    def islands(self, ranks: Ranks) -> Ranks | None:
        """The island of each rank; None where there are none."""
        return ranks // self.devices_per_island if self.devices_per_island else None

    def pods(self, ranks: Ranks) -> Ranks:
        """The pod of each rank; its host where there are none."""
        hosts = self.hosts(ranks)
        return hosts // self.hosts_per_pod if self.hosts_per_pod else hosts

    def kinds(self, ranks: Ranks) -> Ranks:
        """The kind of host that each rank is on."""
        return np.zeros_like(ranks)
