"""Links: what one port carries, how a host's devices are joined, and the way between two ranks."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Level(enum.IntEnum):
    """Where a transfer travels: between the devices of one host, or over the network."""

    HOST = 0
    NETWORK = 1


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a link.

    ``bandwidth``: raw bytes/s; ``efficiency``: share of it that large transfers reach; ``latency``: seconds
    until the first byte of a small message is there, per hop.
    """

    bandwidth: float
    efficiency: float
    latency: float

    @property
    def rate(self) -> float:
        """Usable bytes/s."""
        return self.bandwidth * self.efficiency


class Wiring(enum.StrEnum):
    """How the devices of a host are joined."""

    SWITCH = "switch"
    FULL_MESH = "full_mesh"


@dataclass(frozen=True, slots=True)
class Fabric:
    """The links inside a host.

    ``switch``: ``link`` is a device's port, usable towards any peer. ``full_mesh``: ``link`` joins one pair
    of devices, so a device talks to n - 1 peers over n - 1 links, and what a group can use grows with it.
    """

    wiring: Wiring
    link: Link

    def rate(self, num_ranks: int) -> float:
        """Usable bytes/s out of each device of a group of ``num_ranks`` in one host."""
        links = max(1, num_ranks - 1) if self.wiring is Wiring.FULL_MESH else 1
        return self.link.rate * links


@dataclass(frozen=True, slots=True)
class Network:
    """The network as a host sees it: ``nics`` network cards, each one ``link``."""

    nics: int
    link: Link


@dataclass(frozen=True, slots=True)
class Path:
    """The way from one rank to another.

    ``hops``: links it crosses; ``latency``: seconds for all of them; ``bandwidth``: usable bytes/s of the
    narrowest.
    """

    level: Level
    hops: int
    latency: float
    bandwidth: float
