"""What a recovery policy is, and all of them by kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import cached_property
from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.job.job_costs import JobPhase
from simcluster.job.recovery.recovery_costs import RecoveryCosts
from simcluster.registry import kinds


class StateSource(StrEnum):
    """Where the state comes from with which training goes on."""

    CHECKPOINT = "checkpoint"
    """The last full checkpoint that was written."""
    MEMORY = "memory"
    """The last one in the memory of hosts."""
    SURVIVORS = "survivors"
    """Ranks that hold the same: only the step that was cut is lost."""


@dataclass(frozen=True)
class Survivors:
    """Who holds what: what a policy may ask of a loss, and of the job as a whole."""

    holders: tuple[int, ...]
    """For each device the number of its group: ranks of one group hold the same slices of all parameters and
    optimizer states."""
    data_index: tuple[int, ...]
    """For each device which replica of the data it works for; empty where there is no axis of that kind."""
    host_of: tuple[int, ...]
    """The host of each device."""
    memory_copies: int = 2
    """Hosts that keep each state in memory."""
    servers: frozenset[int] = frozenset()
    """Devices of parameter servers; the last device of all is their scheduler's. They are no replica: -1."""
    waits_for_all: bool = True
    """Whether parameter servers wait for the gradients of all workers."""
    takes_over: bool = False
    """Whether other servers hold the keys of one that is lost until it is back."""
    meet_for: str = ""
    """What workers of parameter servers add up among themselves, in words; nothing if they never meet."""

    @cached_property
    def members(self) -> Mapping[int, tuple[int, ...]]:
        """The devices of every group that holds the same, as ``restore_group_info_list`` lists ranks."""
        groups: dict[int, list[int]] = {}
        for device, group in enumerate(self.holders):
            groups.setdefault(group, []).append(device)
        return {group: tuple(devices) for group, devices in groups.items()}

    @cached_property
    def is_replicated(self) -> bool:
        """Whether every device has another one, on another host, that holds the same."""
        return all(len({self.host_of[entry] for entry in group}) > 1 for group in self.members.values())

    @cached_property
    def num_replicas(self) -> int:
        """Replicas of the data."""
        return len({index for index in self.data_index if index >= 0})

    def keep_slices(self, lost: Collection[int]) -> bool:
        """Whether what these devices held is held by others, too."""
        gone = set(lost)
        return all(
            not gone.issuperset(self.members[group]) for group in {self.holders[entry] for entry in gone}
        )

    def keep_memory(self, hosts: Collection[int]) -> bool:
        """Whether a copy of the state of every host is left.

        Groups of ``memory_copies`` neighbouring hosts keep each other's. Hosts that are left over join the
        last group: the state of each of its hosts is kept by those behind it, around a ring (assumed).
        """
        gone, copies = set(hosts), self.memory_copies
        num_hosts = max(self.host_of, default=0) + 1
        groups = max(1, num_hosts // copies)
        for host in gone:
            group = min(host // copies, groups - 1)
            first = group * copies
            size = (num_hosts if group == groups - 1 else first + copies) - first
            if all(first + (host - first + step) % size in gone for step in range(min(copies, size))):
                return False
        return True

    def replicas_of(self, devices: Collection[int]) -> frozenset[int]:
        """The replicas of the data that these devices work for."""
        indices = (self.data_index[device] for device in devices) if self.data_index else ()
        return frozenset(index for index in indices if index >= 0)


@dataclass(frozen=True, slots=True)
class Loss:
    """What is gone: hosts, of which some have to be replaced, and their devices."""

    hosts: frozenset[int]
    replaced: frozenset[int]
    devices: frozenset[int]
    num_spares: int | None
    """Hosts that stand ready; None: as many as anybody asks for."""

    lost_replicas: frozenset[int] = frozenset()
    """Replicas of the data that were given up before."""
    absent: frozenset[int] = frozenset()
    """Devices of workers and parameter servers that take no part for other reasons."""
    others_wait: bool = False
    """Whether all other processes run and can wait, where the launcher lets them."""


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """How a job continues after an incident: the phases that follow, and the state that they start from."""

    kind: str
    """The policy that made it."""
    source: StateSource
    """Where the state comes from."""
    waits_for_hosts: bool
    """Whether hosts that were lost are replaced before the phases begin."""

    phases: tuple[JobPhase, ...]
    """What is done until training goes on, in this order."""
    lost_replicas: frozenset[int] = frozenset()
    """Replicas of the data without which training goes on."""

    others_wait: bool = False
    """Whether processes that were not lost stay, and wait for those that come back."""
    moves: bool = False
    """Whether the whole job goes to other hosts."""
    taken_over: frozenset[int] = frozenset()
    """Parameter servers whose keys others hold from then on."""
    rejoins: tuple[JobPhase, ...] | None = None
    """Nothing is stopped: all wait for ``phases``, what was lost comes back behind these; None: all stop."""


class RecoveryPolicy(ABC):
    """What is done about a loss. ``is_exact``: training ends with the parameters that it would have had.

    ``keys``: the keys of ``job.recovery`` that this policy reads and some others do not.
    """

    kind: ClassVar[str]
    is_exact: ClassVar[bool]
    keys: ClassVar[tuple[str, ...]] = ()
    goes_on: ClassVar[bool] = False
    """Whether those who are left go on while the others come back."""

    @abstractmethod
    def refusal(self, survivors: Survivors, num_spares: int | None) -> str:
        """Why it can never help this job, or nothing."""

    @abstractmethod
    def plan(self, loss: Loss, survivors: Survivors, costs: RecoveryCosts) -> RecoveryPlan | None:
        """How the job goes on; None where this loss leaves it nothing to go on from."""


def policy_kinds() -> dict[str, type[RecoveryPolicy]]:
    """The recovery policies by kind."""
    return kinds("simcluster.job.recovery.policies", RecoveryPolicy)
