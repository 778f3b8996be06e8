"""Who takes part in training: what failed or left, when it comes back, and which keys move meanwhile."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.job.failures import NANOSECONDS, FailureEffect, Incident
from simcluster.job.recovery import Survivors


@dataclass(frozen=True, slots=True)
class KeysMoved:
    """Keys that go from server to server: their bytes, and how long that takes."""

    num_bytes: int = 0
    seconds: float = 0.0


class KeyMoves(ABC):
    """What moving the keys of parameter servers takes; servers and workers are named by their devices."""

    @abstractmethod
    def moved(self, before: frozenset[int], after: frozenset[int], failed: frozenset[int]) -> KeysMoved:
        """From servers without those ``before`` to servers without those ``after``; ``failed`` ones give
        nothing: what they held is read from a checkpoint.
        """

    @abstractmethod
    def pull_s(self, workers: Collection[int], absent: frozenset[int]) -> float:
        """Seconds in which workers that join pull all weights from the servers that are not ``absent``."""


@dataclass(frozen=True, slots=True, order=True)
class Comeback:
    """Who takes part again, and when: replicas of the data and servers that failed, by index and device;
    devices of those that join as planned.
    """

    at_ns: int
    replicas: tuple[int, ...] = ()
    servers: tuple[int, ...] = ()
    joining: tuple[int, ...] = ()
    cause: str = ""


@dataclass(frozen=True, slots=True)
class MemberChange:
    """Who takes part from a time on, and the keys that moved for it."""

    at_ns: int
    what: str
    cause: str
    workers: int
    """Workers that take part."""
    servers: int
    """Servers that hold keys."""
    moved: KeysMoved = KeysMoved()


@dataclass
class Members:
    """Replicas of the data and parameter servers, as far as they take part."""

    survivors: Survivors
    key_moves: KeyMoves | None = None
    lost: frozenset[int] = frozenset()
    """Replicas of the data that failed, by index."""
    taken_over: frozenset[int] = frozenset()
    """Servers that failed and whose keys others hold, by device."""
    absent: frozenset[int] = frozenset()
    """Devices of workers and servers that left as planned."""
    changes: list[MemberChange] = field(default_factory=list)
    """Of parameter servers and their workers, in the order of time."""
    _comebacks: list[Comeback] = field(default_factory=list)
    _postponed: list[Incident] = field(default_factory=list)

    @property
    def replicas(self) -> frozenset[int]:
        """Replicas of the data that take no part."""
        return self.lost | self.survivors.replicas_of(self.absent)

    @property
    def servers(self) -> frozenset[int]:
        """Servers that hold no keys, by device."""
        return self.taken_over | (self.absent & self.survivors.servers)

    @property
    def next_ns(self) -> Iterator[int]:
        """When somebody takes part again, if anybody does."""
        return (comeback.at_ns for comeback in self._comebacks[:1])

    def takes_no_part(self, device: int) -> bool:
        """Whether a device may fail as it likes."""
        index = self.survivors.data_index
        return (
            device in self.absent
            or device in self.taken_over
            or (bool(self.lost) and bool(index) and index[device] in self.lost)
        )

    def will_come_back(self, comeback: Comeback) -> None:
        """Notes who takes part again, and when."""
        heapq.heappush(self._comebacks, comeback)

    def all_back(self) -> int:
        """Everything starts anew with all that failed or were joining; when the last of them is there."""
        last = max((entry.at_ns for entry in self._comebacks if not entry.joining), default=0)
        joining = (device for entry in self._comebacks for device in entry.joining)
        self.absent -= frozenset(joining)
        self.lost = self.taken_over = frozenset()
        self._comebacks.clear()
        return last

    def still_to_do(self, planned: Incident) -> Incident:
        """What can be done of a planned change now: nobody leaves who is the last worker or server. Who
        waits with leaving and is to join again stays.
        """
        if planned.effect is FailureEffect.LEAVE:
            gone = self.absent | self.taken_over | frozenset(planned.devices)
            workers = self.lost | self.survivors.replicas_of(gone)
            if len(workers) < self.survivors.num_replicas and self.survivors.servers - gone:
                return planned
            self._postponed.append(planned)
            return replace(planned, devices=())
        waiting = {device for entry in self._postponed for device in entry.devices}
        left = [
            replace(entry, devices=tuple(device for device in entry.devices if device not in planned.devices))
            for entry in self._postponed
        ]
        self._postponed = [entry for entry in left if entry.devices]
        return replace(planned, devices=tuple(one for one in planned.devices if one not in waiting))

    def take_postponed(self) -> list[Incident]:
        """Planned changes that had to wait."""
        waiting, self._postponed = self._postponed, []
        return waiting

    def leave(self, devices: Collection[int]) -> None:
        """Workers and servers leave as planned, also those that were about to join."""
        gone = frozenset(devices)
        self.absent |= gone
        left = []
        for entry in self._comebacks:
            joining = tuple(device for device in entry.joining if device not in gone)
            if joining or not entry.joining:
                left.append(replace(entry, joining=joining))
        self._comebacks = sorted(left)

    def come_back(self, now_ns: int) -> Iterator[Comeback]:
        """Takes in everybody who is there by now."""
        while self._comebacks and self._comebacks[0].at_ns <= now_ns:
            comeback = heapq.heappop(self._comebacks)
            self.lost -= frozenset(comeback.replicas)
            self.taken_over -= frozenset(comeback.servers)
            self.absent -= frozenset(comeback.joining)
            yield comeback

    def note(
        self, now_ns: int, what: str, cause: str, before: frozenset[int], failed: Collection[int] = ()
    ) -> int:
        """Puts a change into the list; how long all wait for the keys that move, in nanoseconds.

        ``before`` are the servers that held no keys until now.
        """
        moved = KeysMoved()
        if self.key_moves is not None and before != self.servers:
            moved = self.key_moves.moved(before, self.servers, frozenset(failed))
        workers = self.survivors.num_replicas - len(self.replicas)
        servers = len(self.survivors.servers - self.servers)
        self.changes.append(MemberChange(now_ns, what, cause, workers, servers, moved))
        return round(moved.seconds * NANOSECONDS)

    def pull_ns(self, workers: Collection[int]) -> int:
        """How long workers that join pull all weights."""
        if self.key_moves is None or not workers:
            return 0
        return round(self.key_moves.pull_s(workers, self.servers) * NANOSECONDS)
