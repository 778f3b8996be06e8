"""``cluster.changes``: what makes some devices slower, or faster, than their file says.

A change says which devices, and by what factor. Changes of one device multiply. Nothing else follows from
them: a plan is made for the devices as their file has them, and what it computes is the same.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from simcluster.cluster.device import FASTEST, NOMINAL, SLOWEST, DeviceSpeed, PowerModel
from simcluster.cluster.topology import LinkChangeSpec
from simcluster.document import NonNegativeInt, Power, Refused, Section
from simcluster.errors import PlanError

MOST_DEVICES = 2**20
"""Devices of a cluster in which any may be changed."""

LEAST = 0.1
"""What a drawn factor is at least, as a part of the mean of its law."""


def _different(indices: tuple[int, ...]) -> tuple[int, ...]:
    if twice := [index for position, index in enumerate(indices) if index in indices[:position]]:
        raise ValueError(f"{twice[0]} is listed twice")
    return indices


Factor = Annotated[float, Field(ge=SLOWEST, le=FASTEST)]
"""A factor on a rate: 0.9 is a device that does nine tenths as much per second."""

Indices: TypeAlias = (
    NonNegativeInt | Annotated[tuple[NonNegativeInt, ...], Field(min_length=1), AfterValidator(_different)]
)
"""An index or a list of different ones, from 0."""


class NormalSpec(Section):
    """A factor drawn for every device, or with ``hosts: all`` for every host: ``{normal: [1.0, 0.05]}``."""

    normal: tuple[Factor, Annotated[float, Field(ge=0, le=FASTEST)]]
    """Mean and standard deviation of a normal distribution, drawn from ``run.seed``.

    A draw below a tenth of the mean is raised to a tenth of the mean, so that every device still works.
    """


class BernoulliSpec(Section):
    """A factor that applies to a few devices, chosen at random: ``{bernoulli: [0.005, 0.91]}``."""

    bernoulli: tuple[Annotated[float, Field(ge=0, le=1)], Factor]
    """The probability that a device (with ``hosts: all``, a host) is affected, and the factor of those
    affected, drawn from ``run.seed``. The others keep their speed."""


class ChangeSpec(Section):
    """One change: ``{device: 21, compute: 0.9}``, ``{devices: all, compute: {normal: [1.0, 0.05]}}``."""

    device: Indices | None = None
    """Index of a device in the whole cluster, which is its rank, or a list of indices."""

    host: Indices | None = None
    """Index of a host, or a list of indices; all devices of these hosts change."""

    devices: Literal["all"] | None = None
    """All devices of the cluster; a random factor is drawn for each device."""

    hosts: Literal["all"] | None = None
    """All hosts of the cluster; a random factor is drawn once per host, for all its devices."""

    compute: Factor | NormalSpec | BernoulliSpec | None = None
    """Factor on the rates of the matrix and vector units."""

    memory_bandwidth: Factor | NormalSpec | BernoulliSpec | None = None
    """Factor on the bandwidth of the device's memory."""

    power: Power | None = None
    """Power cap of each device, as hosts set it: ``500 W``. The matrix and vector units run at the clock that
    it allows. Of several caps of a device the lowest applies."""

    @model_validator(mode="after")
    def _is_whole(self) -> ChangeSpec:
        named = [name for name in ("device", "host", "devices", "hosts") if getattr(self, name) is not None]
        if not named:
            raise Refused("which devices? write device: 21, host: 3, devices: all, hosts: all, or link: NAME")
        if len(named) > 1:
            raise Refused(f"'{named[0]}' names devices already; write one of the two", path=named[1])
        if self.compute is None and self.memory_bandwidth is None and self.power is None:
            raise Refused("this changes nothing; write compute: 0.9, memory_bandwidth: 0.8 or power: 500 W")
        return self

    def check(self, devices: Sequence[range]) -> None:
        """Refused, with the key, if it names a device or host that is not among ``devices`` of every host."""
        for key, count in (("device", devices[-1].stop), ("host", len(devices))):
            written = getattr(self, key)
            for position, index in enumerate(_listed(written)):
                if index >= count:
                    path = key if isinstance(written, int) else f"{key}.{position}"
                    raise Refused(
                        f"there is no {key} {index}; the last of {count:,} is {count - 1}", path=path
                    )

    def ranks(self, devices: Sequence[range]) -> Sequence[int]:
        """The devices it changes, of the ``devices`` of every host."""
        if self.devices is not None or self.hosts is not None:
            return range(devices[-1].stop)
        if self.device is not None:
            return _listed(self.device)
        return [rank for host in _listed(self.host) for rank in devices[host]]


def _kind(written: Any) -> str:
    named = written if isinstance(written, Mapping) else getattr(type(written), "model_fields", {})
    return "link" if "link" in named else "device"


AnyChange = Annotated[
    Annotated[ChangeSpec, Tag("device")] | Annotated[LinkChangeSpec, Tag("link")], Discriminator(_kind)
]
"""An entry of ``cluster.changes``: of devices, or of links where it names a ``link``."""


def device_speeds(
    changes: Sequence[ChangeSpec],
    devices: Sequence[range],
    seed: int,
    powers: Sequence[PowerModel | None] = (),
) -> Mapping[int, DeviceSpeed]:
    """Rank -> speed of every device that is not as its file has it, by rank; ``devices`` by host.

    ``powers``: by host what its devices take, for caps of it.

    A device's draw depends on the seed, on its rank or host, on what is drawn and on how many laws of that
    stand before in the list: not on the size of the cluster, nor on changes without a law.
    Raises PlanError if the factors of one device multiply to something out of all bounds, or a cap is none.
    """
    factors_of: dict[int, dict[str, float]] = {}
    firsts = [host.start for host in devices]
    for kind in ("compute", "memory_bandwidth"):
        laws = 0
        for change in changes:
            factor = getattr(change, kind)
            if factor is None:
                continue
            drawn = isinstance(factor, NormalSpec | BernoulliSpec)
            for rank in change.ranks(devices):
                whose = f"host {bisect_right(firsts, rank) - 1}" if change.hosts else f"{rank}"
                times = _draw(factor, f"{kind} {laws} of {whose} by {seed}") if drawn else factor
                own = factors_of.setdefault(rank, {})
                own[kind] = own.get(kind, 1.0) * times
            laws += drawn
    for rank, factor in _capped(changes, devices, powers).items():
        own = factors_of.setdefault(rank, {})
        own["compute"] = own.get("compute", 1.0) * factor
    for rank, kind, factor in _factors(factors_of):
        if not SLOWEST <= factor <= FASTEST:
            raise PlanError(
                f"the changes of device {rank} multiply to {kind} x {factor:.3g}",
                path="cluster.changes",
                hint=f"a factor is between {SLOWEST:g} and {FASTEST:g}",
            )
    every = {rank: DeviceSpeed(**factors) for rank, factors in sorted(factors_of.items())}
    return {rank: speed for rank, speed in every.items() if speed != NOMINAL}


def _capped(
    changes: Sequence[ChangeSpec], devices: Sequence[range], powers: Sequence[PowerModel | None]
) -> dict[int, float]:
    """Rank -> the factor that the lowest cap leaves of what its device computes per second."""
    caps: dict[int, float] = {}
    for change in changes:
        if change.power is not None:
            for rank in change.ranks(devices):
                caps[rank] = min(change.power, caps.get(rank, math.inf))
    if not caps:
        return {}
    firsts = [host.start for host in devices]
    return {rank: _speed_at(cap, rank, powers[bisect_right(firsts, rank) - 1]) for rank, cap in caps.items()}


def _speed_at(cap: float, rank: int, power: PowerModel | None) -> float:
    if power is None:
        raise PlanError(
            f"nothing is known of the power of device {rank}, so none of what a cap leaves of it",
            path="cluster.changes",
            hint="give its device power: {idle: 70 W, peak: 700 W}",
        )
    if not power.idle < cap <= power.limit:
        raise PlanError(
            f"a cap of {cap:g} W is none for device {rank}",
            path="cluster.changes",
            hint=f"it lies above the {power.idle:g} W that it takes idle, and not above its limit of "
            f"{power.limit:g} W",
        )
    return power.speed(cap)


def _draw(law: NormalSpec | BernoulliSpec, key: str) -> float:
    """The draw of a key: the inverse of the law at a hash of the key, whatever the libraries."""
    number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") >> 12
    place = (number + 0.5) / 2**52
    if isinstance(law, BernoulliSpec):
        probability, factor = law.bernoulli
        return factor if place < probability else 1.0
    mean, deviation = law.normal
    if not deviation:
        return mean
    return max(NormalDist(mean, deviation).inv_cdf(place), LEAST * mean)


def _factors(found: Mapping[int, Mapping[str, float]]) -> Iterator[tuple[int, str, float]]:
    return ((rank, kind, factor) for rank, own in found.items() for kind, factor in own.items())


def _listed(written: int | tuple[int, ...] | None) -> tuple[int, ...]:
    if written is None:
        return ()
    return (written,) if isinstance(written, int) else written
