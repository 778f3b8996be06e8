"""What files about hosts and devices are checked against: the hardware that the cluster section names."""

from __future__ import annotations

from simcluster.deferred_dataclass import dataclass

ASCEND_910A = "ascend-910a"
"""The device whose rank tables have rules of their own."""


@dataclass(frozen=True, slots=True)
class AllocatedSite:
    """Hosts as a job finds them; of a catalog's host, or one written out."""

    host: str
    """What the host is called."""

    device: str
    """What its device is called in the catalog."""

    kind: str
    """The family of its devices: ascend, gpu or cpu."""

    devices_per_host: int
    """Devices of a host."""

    devices_per_island: int
    """Devices that are joined more closely; all, where all are joined alike."""

    hosts_per_pod: int
    """Hosts that are joined like devices of one; 0 where there are no such pods."""

    num_hosts: int | None = None
    """How many hosts the cluster section says there are, if it says so."""

    sizes: tuple[int, ...] = ()
    """Devices of every host, where there are groups of several kinds; ranks go through all of them."""

    num_servers: int = 0
    """Parameter servers: ranks behind the workers, and behind them the scheduler."""

    @property
    def is_910a(self) -> bool:
        """Whether the rules of the first Ascend 910 hold."""
        return self.device == ASCEND_910A
