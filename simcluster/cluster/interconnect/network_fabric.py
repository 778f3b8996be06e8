"""What every network fabric answers: its nodes and links, where cards end, and the way between two cards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.interconnect.in_network_reduction import SwitchReduction, SwitchReductionSpec
from simcluster.cluster.interconnect.link import Link
from simcluster.cluster.interconnect.link_families import LinkFamily, NameBlock, Numbers
from simcluster.deferred_dataclass import dataclass
from simcluster.document import Figure, Refused, Section


@dataclass(frozen=True, slots=True)
class FabricCards:
    """What a fabric joins: the network cards of all hosts, numbered host by host."""

    num_hosts: int
    """Hosts."""
    nics: int
    """Cards of each."""
    card: Link
    """One direction of a card's link, with the latency of a way through one switch."""
    hop: float = 0.0
    """Seconds that each further switch adds."""
    first_node: int = 0
    """The number of the fabric's first node."""
    first_link: int = 0
    """The number of its first link."""
    dead: frozenset[int] = frozenset()
    """Links that carry nothing."""
    cable_rate: float = 1.0
    """A factor on the rates of cables that the fabric's own document has."""
    cable_latency: float = 1.0
    """The same for their latencies."""
    added_hop: float = 0.0
    """What of ``hop`` the library's figure of a step between hosts does not contain."""


@dataclass(frozen=True, slots=True, eq=False)
class CardRoutes:
    """The links between two cards [pairs, most links], padded with -1, and their latency [pairs] in seconds.

    Those of the cards themselves are not among them.
    """

    links: Numbers
    latency: NDArray[np.float64]


FabricBuilder: TypeAlias = Callable[[FabricCards], "NetworkFabric"]
"""Makes the fabric that a scenario describes for the network cards of given hosts."""


class NetworkFabricSpec(Section):
    """What a document says about one kind of fabric; each has a ``kind``."""

    @abstractmethod
    def builder(self) -> FabricBuilder:
        """What makes this fabric for given network cards."""

    def check(self, num_hosts: int, nics: int) -> None:
        """Refused, with the key, if it does not fit so many hosts of so many cards."""


class ReducingSpec(NetworkFabricSpec):
    """A kind of fabric whose switches may add up what passes them."""

    reduces: Figure[SwitchReductionSpec] | None = None
    """What its switches reduce on the way (SHARP); by default nothing."""

    def check_tree(self, ecmp: str) -> None:
        """Refused if messages spread over several trees, so that there is none along which to reduce."""
        if self.reduces and ecmp != "ideal":
            raise Refused(
                "reduction in the network needs one tree over all hosts; write ecmp: ideal", path="reduces"
            )

    @property
    def reduction(self) -> SwitchReduction | None:
        """What it reduces; None for nothing."""
        return self.reduces.value.build() if self.reduces else None


@dataclass(frozen=True, slots=True, eq=False)
class NetworkFabric(ABC):
    """How the network cards of all hosts are joined."""

    kind: ClassVar[str]
    spec: ClassVar[type[NetworkFabricSpec]]

    site: FabricCards

    @property
    def moves_inside(self) -> bool:
        """Whether a message to another rail first moves to the device on that rail, inside its host."""
        return False

    @property
    def is_tree(self) -> bool:
        """Whether a route's links up depend on its source alone, and those down on its destination alone.

        It turns at the smallest of ``places`` that both are in; so pairs can be counted, not listed.
        """
        return False

    def parts(self, hosts: Numbers) -> list[Numbers] | None:
        """For each family of links the index on its first axis of those that hosts use, shaped as ``hosts``.

        None where this and the index of the card do not determine which links a route takes.
        """
        return None

    @abstractmethod
    def nodes(self) -> list[NameBlock]:
        """Its switches, in numbers."""

    @abstractmethod
    def families(self) -> list[LinkFamily]:
        """Its links, in numbers."""

    @abstractmethod
    def attached(self, cards: Numbers) -> Numbers:
        """The node at the other end of each card's links."""

    @abstractmethod
    def cross(self, src: Numbers, dst: Numbers) -> CardRoutes:
        """The route from each of the cards ``src`` to the card of ``dst`` at the same index."""

    @property
    def adds_latency(self) -> bool:
        """Whether any two cards are further apart than the library's figure of a step between hosts says."""
        return bool(self.site.added_hop)

    def added_latency(self, src: Numbers, dst: Numbers) -> NDArray[np.float64]:
        """Seconds [pairs] that a step between two cards takes beyond that figure."""
        switches = (self.cross(src, dst).links >= 0).sum(axis=1, dtype=np.float64)
        return np.asarray(switches * self.site.added_hop)

    @property
    def root(self) -> int:
        """The switch over all cards, where their messages can meet; -1 where there is no single one."""
        return -1

    @property
    def reduces(self) -> SwitchReduction | None:
        """What its switches add up on the way; only where there is a root."""
        return None

    def is_over(self, switches: Numbers, cards: Numbers) -> NDArray[np.bool_]:
        """Whether each node is a switch that messages of the card at the same index can go up to."""
        return np.zeros(np.shape(switches), dtype=np.bool_)

    def to_switch(self, cards: Numbers, switches: Numbers, down: bool) -> CardRoutes:
        """Routes from cards up to switches over them, or ``down`` from these; only where there is a root."""
        raise NotImplementedError(f"{self.kind} has no root")

    def to_root(self, cards: Numbers, down: bool) -> CardRoutes:
        """The routes from cards to the root, or ``down`` from it to them; only where there is a root."""
        return self.to_switch(cards, np.full(np.shape(cards), self.root), down)

    def meeting(self, cards: Numbers) -> Numbers:
        """The lowest switch over all cards of each row [rows, cards]; only where there is a root."""
        raise NotImplementedError(f"{self.kind} has no root")

    @property
    def switches_differ(self) -> bool:
        """Whether switches over the same hosts may still differ, so that none may stand for another."""
        return False

    def distinguishing_parts(self, hosts: Numbers) -> list[Numbers]:
        """Arrays [hosts]: hosts that differ in one are not interchangeable; none in fabrics that repeat."""
        return []

    def may_lose(self, links: Numbers) -> bool:
        """Whether all cards still reach one another without these links."""
        return False

    @abstractmethod
    def places(self, hosts: Numbers) -> list[Numbers]:
        """The part of the fabric (leaf, unit, block) that each host is in: by tier, shaped as ``hosts``.

        The numbers only say which are the same: groups whose members share parts in the same pattern take the
        same time.
        """
