"""What is started, as launching sees it: ranks on hosts, communicators and graphs."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.cluster import AllocatedHost, Allocation, MapBy
from simcluster.errors import PlanError


@dataclass(frozen=True, slots=True)
class CommunicatorGroups:
    """The communicators along one or several mesh axes: how many there are, each of ``size`` ranks."""

    name: str
    size: int
    count: int


@dataclass(frozen=True, slots=True)
class LaunchSetting:
    """A job that is to be started.

    ``kinds`` are the families of its devices, ``groups`` the communicators that its program uses, in the
    order in which processes make them; ``operators`` is the size of the largest graph with every repeated
    block once, ``unrolled`` with each of its instances. ``file`` is the launcher's file that the scenario
    names, if it does.
    """

    allocation: Allocation
    kinds: frozenset[str]
    groups: tuple[CommunicatorGroups, ...]
    operators: int
    unrolled: int
    file: tuple[str, str] | None = None

    @property
    def num_ranks(self) -> int:
        """Ranks of the job."""
        return self.allocation.num_ranks

    @property
    def num_servers(self) -> int:
        """Parameter servers that an MSJob asks for."""
        return self.allocation.job.count("PS") if self.allocation.job else 0

    @property
    def hosts(self) -> tuple[AllocatedHost, ...]:
        """Hosts that run ranks, in the order of their first ranks."""
        used = [host for host in self.allocation.hosts if host.ranks]
        return tuple(sorted(used, key=lambda host: min(host.ranks)))

    @property
    def hosts_of_ranks(self) -> tuple[str, ...]:
        """The name of the host of every rank."""
        names = {rank: host.name for host in self.allocation.hosts for rank in host.ranks}
        return tuple(names[rank] for rank in range(self.num_ranks))

    @property
    def devices_of_ranks(self) -> tuple[int, ...]:
        """The index on its host of the device of every rank."""
        devices = {
            rank: device
            for host in self.allocation.hosts
            for rank, device in zip(host.ranks, host.devices, strict=True)
        }
        return tuple(devices[rank] for rank in range(self.num_ranks))

    def equal_hosts(self, launcher: str) -> tuple[tuple[str, ...], int]:
        """The hosts and how many ranks each has, all in order; PlanError where that is not so."""
        by, hosts = self.dealt(launcher), self.hosts
        counts = {len(host.ranks) for host in hosts}
        if len(counts) > 1 or (by is not MapBy.SLOT and len(hosts) > 1):
            raise PlanError(
                f"{launcher} gives all hosts equally many ranks, host by host; here they are not dealt so",
                path="job.launch.method",
                hint="launch it by rank_table, mpirun or dynamic",
            )
        return tuple(host.name for host in hosts), counts.pop()

    def dealt(self, launcher: str) -> MapBy:
        """How ranks are dealt to hosts; PlanError where that is not in order."""
        by = self.allocation.dealt_by
        if by is None:
            raise PlanError(
                f"{launcher} deals ranks to hosts and devices in order; here they are given one by one",
                path="job.launch.method",
                hint="launch it by rank_table or dynamic",
            )
        return by
