"""Links: what one port carries, how a host's devices are joined, and the way between two ranks."""

from __future__ import annotations

import enum

from simcluster.cluster.interconnect.share_by_count import ALL, ShareByCount
from simcluster.deferred_dataclass import dataclass


class Level(enum.IntEnum):
    """The two levels that a collective algorithm tells apart: inside a host, and between hosts.

    What carries them for a given group is its span's ``inside`` and ``between``.
    """

    HOST = 0
    NETWORK = 1


class Reach(enum.IntEnum):
    """How far apart ranks lie, by the links that join them; the next one is tried where one ends."""

    ISLAND = 0
    HOST = 1
    POD = 2
    NETWORK = 3


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
    PARTIAL_MESH = "partial_mesh"
    TRUNK = "trunk"


@dataclass(frozen=True, slots=True)
class HostFabric:
    """The links inside a host."""

    wiring: Wiring
    """``switch``: ``link`` is a device's port, usable towards any peer. ``full_mesh``: ``link`` joins one
    pair of devices, so a device talks to n - 1 peers over n - 1 links, and what a group can use grows with
    it. ``partial_mesh``: not every pair is joined. ``trunk``: ``link`` joins each pair of islands, and all
    their devices share it."""
    link: Link
    """What ``wiring`` says."""
    links: tuple[tuple[int, int], ...] = ()
    """Of a partial mesh: how many of its links each device of a group can use, by the ranks of the group,
    rising from 2; a size between two counts as the smaller."""
    pairs: tuple[tuple[int, int, int], ...] = ()
    """Of a partial mesh: which devices are joined, and by how many links."""
    name: str = "fabric"
    """What its links are called."""
    reduces: bool = False
    """Whether the switch can add up what goes through it."""
    over_pcie: bool = False
    """Whether the devices get to it through their PCIe links."""
    by_ranks: ShareByCount = ALL
    """What collectives reach of the rate, by their ranks on a host."""

    def rate(self, num_ranks: int) -> float:
        """Usable bytes/s out of each device of a group of ``num_ranks`` in one host."""
        return self.link.rate * self._usable_links(max(2, num_ranks))

    def _usable_links(self, num_ranks: int) -> int:
        match self.wiring:
            case Wiring.SWITCH | Wiring.TRUNK:
                return 1
            case Wiring.FULL_MESH:
                return num_ranks - 1
            case Wiring.PARTIAL_MESH:
                return max(links for ranks, links in self.links if ranks <= num_ranks)


@dataclass(frozen=True, slots=True)
class Island:
    """A part of a host, ``num_devices`` neighbours, joined by a fabric of its own."""

    num_devices: int
    fabric: HostFabric


@dataclass(frozen=True, slots=True)
class Pod:
    """``num_hosts`` neighbouring hosts whose devices reach each other without the network.

    ``link`` is a device's port to the pod's switch: the same port that it uses inside its host.
    """

    num_hosts: int
    link: Link


@dataclass(frozen=True, slots=True)
class HostNetwork:
    """The network as a host sees it: ``nics`` network cards, each one ``link``.

    ``on_device``: the cards are part of the devices, which reach them without PCIe. ``hop``: seconds
    that each switch behind the first adds, ``added_hop`` what of it steps of collectives do not contain yet.
    ``by_hosts``: what collectives reach of the rate, by the hosts (or
    pods) that they lie on.
    """

    nics: int
    link: Link
    on_device: bool = False
    hop: float = 0.0
    by_hosts: ShareByCount = ALL
    added_hop: float = 0.0


@dataclass(frozen=True, slots=True)
class Storage:
    """Storage that all hosts share: bytes/s it reads and writes for all, and for one host; seconds to it."""

    read: float
    write: float
    host: float
    latency: float
