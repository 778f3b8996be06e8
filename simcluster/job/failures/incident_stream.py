"""Incidents in the order of time: listed ones, and draws of laws for as long as the job lasts."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.job.failures.failure_cause import FailureCause
from simcluster.job.failures.failure_law import Exponential, FailureLaw
from simcluster.job.failures.fleet import Fleet
from simcluster.job.failures.incident import FailureEffect, Incident

NANOSECONDS = 10**9


@dataclass(frozen=True, slots=True)
class PlannedMaintenance:
    """Maintenance at a known time, once or again and again; in nanoseconds."""

    at_ns: int
    every_ns: int | None
    lasts_ns: int


def incidents(
    causes: Sequence[FailureCause],
    listed: Sequence[Incident],
    maintenance: Sequence[PlannedMaintenance],
    fleet: Fleet,
    seed: Sequence[int],
    window_s: float,
) -> Iterator[Incident]:
    """All incidents by time, without an end where a cause or maintenance has none.

    Every cause has a generator of its own, so that what one draws depends on no other. Lives of components
    that do not follow the exponential law are drawn for ``window_s`` seconds at a time.
    """
    streams = [_drawn(cause, fleet, [*seed, index], window_s) for index, cause in enumerate(causes)]
    streams += [_repeated(planned) for planned in maintenance]
    streams.append(iter(sorted(listed, key=lambda incident: incident.at_ns)))
    return heapq.merge(*streams, key=lambda incident: incident.at_ns)


def _repeated(planned: PlannedMaintenance) -> Iterator[Incident]:
    at = planned.at_ns
    while True:
        yield Incident(
            at, "maintenance", "job", FailureEffect.MAINTENANCE, replaces=False, lasts_ns=planned.lasts_ns
        )
        if planned.every_ns is None:
            return
        at += planned.every_ns


def _drawn(cause: FailureCause, fleet: Fleet, seed: Sequence[int], window_s: float) -> Iterator[Incident]:
    """The incidents of one cause, with those that follow on the same host, by time."""
    generator = np.random.default_rng(seed)
    following: list[tuple[float, int, int]] = []
    number = 0
    count = fleet.count(cause.component, cause.hosts_each)
    for at, index in _failures(cause.law, cause.is_settled, count, generator, window_s):
        while following and following[0][0] <= at:
            later, _, again = heapq.heappop(following)
            yield _incident(cause, fleet, later, again, generator)
        yield _incident(cause, fleet, at, index, generator)
        if cause.spread and generator.random() < cause.spread:
            number += 1
            neighbour = _neighbour(cause, fleet, index, generator)
            heapq.heappush(following, (at + generator.random() * cause.spread_s, number, neighbour))


def _neighbour(cause: FailureCause, fleet: Fleet, index: int, generator: np.random.Generator) -> int:
    """Another device of the same host, or the component itself where it has no such neighbour."""
    if cause.component not in ("device", "process"):
        return index
    others = [device for device in fleet.devices(fleet.host_of(index)) if device != index]
    return others[int(generator.integers(len(others)))] if others else index


def _incident(
    cause: FailureCause, fleet: Fleet, at: float, index: int, generator: np.random.Generator
) -> Incident:
    hosts, devices = fleet.taken(cause.component, index, cause.hosts_each)
    lasts = 0.0 if cause.duration is None else float(cause.duration.lifetimes(1, generator)[0])
    return Incident(
        round(at * NANOSECONDS),
        cause.name,
        cause.component,
        cause.effect,
        hosts,
        devices,
        cause.replaces,
        round(lasts * NANOSECONDS),
        cause.factor,
    )


def _failures(
    law: FailureLaw, is_settled: bool, count: int, generator: np.random.Generator, window_s: float
) -> Iterator[tuple[float, int]]:
    """(seconds, component) of all failures of ``count`` equal components, by time, without an end."""
    if isinstance(law, Exponential):
        yield from _poisson(law.mean / count, count, generator)
        return
    components = _Components(law, count, is_settled, generator)
    until = 0.0
    while True:
        until = max(until + window_s, components.earliest)
        yield from components.failures_until(until)


def _poisson(mean: float, count: int, generator: np.random.Generator) -> Iterator[tuple[float, int]]:
    """Exponential lives of equal components, put together: a Poisson process, each of them as likely."""
    at, block = 0.0, 64
    while True:
        times = at + np.cumsum(generator.exponential(mean, block))
        members = generator.integers(count, size=block)
        yield from zip(times.tolist(), members.tolist(), strict=True)
        at = float(times[-1])


@dataclass
class _Components:
    """When each of many components fails next, in seconds [count]."""

    law: FailureLaw
    count: int
    is_settled: bool
    generator: np.random.Generator
    _next: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        first = self.law.residual if self.is_settled else self.law.lifetimes
        self._next = first(self.count, self.generator)

    @property
    def earliest(self) -> float:
        """When the first of them fails."""
        return float(self._next.min())

    def failures_until(self, until: float) -> list[tuple[float, int]]:
        """Those that come before, by time; each component that failed begins a new life."""
        times: list[NDArray[np.float64]] = []
        members: list[NDArray[np.int64]] = []
        failed = np.flatnonzero(self._next <= until)
        while failed.size:
            times.append(self._next[failed])
            members.append(failed)
            self._next[failed] += self.law.lifetimes(failed.size, self.generator)
            failed = failed[self._next[failed] <= until]
        if not times:
            return []
        every, who = np.concatenate(times), np.concatenate(members)
        order = np.lexsort((who, every))
        return list(zip(every[order].tolist(), who[order].tolist(), strict=True))
