"""The components of the hosts of a job: how many there are of a kind, and what fails with one."""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal, TypeAlias

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError

Component: TypeAlias = Literal[
    "device", "process", "host", "nic", "link", "disk", "switch", "power_domain", "job"
]


@dataclass(frozen=True, slots=True)
class Fleet:
    """The hosts of a job, numbered from 0: the first device of each and the end, network cards and disks."""

    first_devices: tuple[int, ...]
    num_nics: tuple[int, ...]
    num_disks: tuple[int, ...]

    @property
    def num_hosts(self) -> int:
        """Hosts of the job."""
        return len(self.num_nics)

    @property
    def num_devices(self) -> int:
        """Devices of all hosts."""
        return self.first_devices[-1]

    def devices(self, host: int) -> range:
        """The devices of a host."""
        return range(self.first_devices[host], self.first_devices[host + 1])

    def host_of(self, device: int) -> int:
        """The host of a device."""
        return bisect_right(self.first_devices, device) - 1

    def count(self, component: Component, hosts_each: int) -> int:
        """Components of a kind; a switch or a power domain has ``hosts_each`` hosts behind it."""
        if component in ("device", "process"):
            return self.num_devices
        if component in ("nic", "link"):
            return sum(self.num_nics)
        if component == "disk":
            return sum(self.num_disks)
        if component in ("switch", "power_domain"):
            return -(-self.num_hosts // hosts_each)
        return self.num_hosts if component == "host" else 1

    def taken(
        self, component: Component, index: int, hosts_each: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(hosts, devices) that fail with a component; IndexError if there is none of this index."""
        if not 0 <= index < self.count(component, hosts_each):
            raise IndexError(f"{component} {index}")
        if component in ("device", "process"):
            return (self.host_of(index),), (index,)
        if component in ("nic", "link"):
            return (_owner(self.num_nics, index),), ()
        if component == "disk":
            return (_owner(self.num_disks, index),), ()
        if component in ("switch", "power_domain"):
            first = index * hosts_each
            return tuple(range(first, min(first + hosts_each, self.num_hosts))), ()
        return ((index,), ()) if component == "host" else ((), ())

    def check(self, component: Component, hosts_each: int, path: str) -> None:
        """PlanError if the hosts have nothing of a kind, so that it could never fail."""
        if not self.count(component, hosts_each):
            raise PlanError(
                f"the hosts of the job have no {component}",
                path=path,
                hint="leave this cause out, or describe it in the host",
            )


def _owner(counts: tuple[int, ...], index: int) -> int:
    """The host that has the component of this index, when those of all hosts are counted through."""
    for host, count in enumerate(counts):
        if index < count:
            return host
        index -= count
    raise IndexError(index)
