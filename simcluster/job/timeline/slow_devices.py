"""Devices that are slow for a while, as incidents make them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field

from simcluster.deferred_dataclass import dataclass
from simcluster.job.failures import Incident
from simcluster.job.timeline.cluster_state import SlowDevice


@dataclass(frozen=True, slots=True)
class _SlowPeriod:
    """Devices that are slow until a time."""

    until_ns: int
    devices: tuple[int, ...]
    factor: float
    cause: str


@dataclass
class SlowDevices:
    """Which devices are slow now; a device may be so for several reasons."""

    _periods: list[_SlowPeriod] = field(default_factory=list)

    @property
    def ends_ns(self) -> Iterator[int]:
        """When some are as fast again as they were."""
        return (period.until_ns for period in self._periods)

    @property
    def causes(self) -> list[str]:
        """Why devices are slow, the first reason first."""
        return [period.cause for period in self._periods]

    def together(self, takes_no_part: Callable[[int], bool]) -> tuple[SlowDevice, ...]:
        """The slow devices that take part in training, each once; factors of several reasons multiply."""
        factors: dict[int, float] = {}
        for period in self._periods:
            for device in period.devices:
                if not takes_no_part(device):
                    factors[device] = factors.get(device, 1.0) * period.factor
        return tuple(SlowDevice(device, factor) for device, factor in sorted(factors.items()))

    def add(self, incident: Incident, devices: tuple[int, ...]) -> None:
        """Devices become slow, for as long as the incident lasts."""
        until = incident.at_ns + incident.lasts_ns
        self._periods.append(_SlowPeriod(until, devices, incident.factor, incident.cause))

    def end(self, now_ns: int) -> None:
        """Leaves out what is over."""
        self._periods = [period for period in self._periods if period.until_ns > now_ns]

    def replace(self, hosts: Collection[int], host_of: Sequence[int]) -> None:
        """Leaves out what was slow on hosts in whose place there are others."""
        self._periods = [
            period
            for period in self._periods
            if any(host_of[device] not in hosts for device in period.devices)
        ]

    def clear(self) -> None:
        """Leaves out everything: the job runs on other devices."""
        self._periods.clear()
