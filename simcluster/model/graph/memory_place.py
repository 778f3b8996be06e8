"""Where a value lies: on its device, in the memory of the device's host, or on the host's disks."""

from __future__ import annotations

import enum
import math

from simcluster.deferred_dataclass import dataclass


class MemoryPlace(enum.StrEnum):
    """A memory that values lie in; those of a host are shared by its devices."""

    DEVICE = "device"
    HOST = "host"
    DISK = "disk"


ANY_TIME = 1 << 30
"""How far ahead of its users a copy is made that waits for nothing but what it copies."""


@dataclass(frozen=True, slots=True)
class Relocation:
    """One leg of a value's way from one place to another; between device and disk there are two.

    It changes neither values nor layouts. ``bandwidth_limit`` are the bytes/s that it asks for, as far as
    anything but links bounds it. What is brought to a device ahead of a kernel of the same phase is so
    when the one ``ahead + 1`` before that, of those for which something is brought, is done with what it
    used.
    """

    source: MemoryPlace
    target: MemoryPlace
    bandwidth_limit: float = math.inf
    ahead: int = 1

    def __post_init__(self) -> None:
        if MemoryPlace.HOST not in (self.source, self.target) or self.source is self.target:
            raise ValueError(f"no copy leads straight from {self.source} to {self.target}")

    def __str__(self) -> str:
        return f"{self.source} to {self.target}"


def relocations_between(
    source: MemoryPlace, target: MemoryPlace, disk: float = math.inf, bus: float = math.inf, ahead: int = 1
) -> list[Relocation]:
    """The copies that bring a value from one memory to another, in order; none if they are the same.

    ``disk`` and ``bus`` are the bytes/s asked for at most of the disks and of what leads to the device.
    """
    order = list(MemoryPlace)
    first, last = order.index(source), order.index(target)
    step = 1 if last > first else -1
    relocations = []
    for at in range(first, last, step):
        one, other = order[at], order[at + step]
        relocations.append(Relocation(one, other, disk if MemoryPlace.DISK in (one, other) else bus, ahead))
    return relocations
