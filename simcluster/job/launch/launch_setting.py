"""What is started, as launching sees it: ranks on hosts, communicators and graphs."""

from __future__ import annotations

from simcluster.cluster import AllocatedHost, Allocation, MapBy
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError


@dataclass(frozen=True, slots=True)
class CommunicatorGroups:
    """The communicators along one or several mesh axes: how many there are, each of ``size`` ranks."""

    name: str
    size: int
    count: int


@dataclass(frozen=True, slots=True)
class LaunchSetting:
    """A job that is to be started."""

    allocation: Allocation
    """Where its ranks are: workers, behind them parameter servers, behind these their scheduler."""
    num_workers: int
    """Workers."""
    num_servers: int
    """Parameter servers; with them the scheduler has a rank."""
    kinds: frozenset[str]
    """The families of its devices."""
    groups: tuple[CommunicatorGroups, ...]
    """The communicators that its program uses, in the order in which processes make them."""
    operators: int
    """Operators of the largest graph, every repeated block once."""
    unrolled: int
    """The same with every instance of each block."""
    file: tuple[str, str] | None = None
    """The format of the launcher's file that the scenario names, and the file."""

    @property
    def scheduler_host(self) -> str:
        """Where the scheduler is: behind parameter servers, or beside rank 0."""
        return self.hosts_of_ranks[-1 if self.num_servers else 0]

    @property
    def hosts_of_workers(self) -> tuple[str, ...]:
        """The name of the host of every worker."""
        return self.hosts_of_ranks[: self.num_workers]

    @property
    def hosts_of_servers(self) -> tuple[str, ...]:
        """The name of the host of every parameter server."""
        return self.hosts_of_ranks[self.num_workers : self.num_workers + self.num_servers]

    @property
    def hosts(self) -> tuple[AllocatedHost, ...]:
        """Hosts that run ranks, in the order of their first ranks."""
        used = [host for host in self.allocation.hosts if host.ranks]
        return tuple(sorted(used, key=lambda host: min(host.ranks)))

    @property
    def hosts_of_ranks(self) -> tuple[str, ...]:
        """The name of the host of every rank."""
        names = {rank: host.name for host in self.allocation.hosts for rank in host.ranks}
        return tuple(names[rank] for rank in range(self.allocation.num_ranks))

    @property
    def devices_of_ranks(self) -> tuple[int, ...]:
        """The index on its host of the device of every rank."""
        devices = {
            rank: device
            for host in self.allocation.hosts
            for rank, device in zip(host.ranks, host.devices, strict=True)
        }
        return tuple(devices[rank] for rank in range(self.allocation.num_ranks))

    def equal_hosts(self, launcher: str, *, in_order: bool = True) -> tuple[tuple[str, ...], int]:
        """The hosts and how many ranks each has, host by host; PlanError where that is not so, or, with
        ``in_order``, devices do not have their ranks in order.
        """
        hosts = self.hosts
        counts = {len(host.ranks) for host in hosts}
        by_host = all(max(host.ranks) - min(host.ranks) < len(host.ranks) for host in hosts)
        if in_order:
            self.dealt(launcher)
        if len(counts) > 1 or not by_host:
            raise PlanError(
                f"{launcher} gives all hosts equally many ranks, host by host; here they are not",
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
