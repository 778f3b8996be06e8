"""What every network fabric answers: its nodes and links, where cards end, and the way between two cards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.family import Block, Family, Numbers
from simcluster.cluster.link import Link


@dataclass(frozen=True, slots=True)
class Site:
    """What a fabric joins: ``nics`` cards of each of ``num_hosts`` hosts, numbered host by host.

    Its nodes and links are numbered from ``first_node`` and ``first_link``.
    """

    num_hosts: int
    nics: int
    card: Link
    first_node: int = 0
    first_link: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Crossing:
    """The links between two cards [pairs, most links], padded with -1, and their latency [pairs] in seconds.

    Those of the cards themselves are not among them.
    """

    links: Numbers
    latency: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class NetworkFabric(ABC):
    """How the network cards of all hosts are joined."""

    kind: ClassVar[str]

    site: Site

    @abstractmethod
    def nodes(self) -> list[Block]:
        """Its switches, in numbers."""

    @abstractmethod
    def families(self) -> list[Family]:
        """Its links, in numbers."""

    @abstractmethod
    def attached(self, cards: Numbers) -> Numbers:
        """The node at the other end of each card's links."""

    @abstractmethod
    def cross(self, src: Numbers, dst: Numbers) -> Crossing:
        """The way from cards to cards, one by one."""

    @abstractmethod
    def places(self, hosts: Numbers) -> list[Numbers]:
        """The parts of the fabric that hosts lie in, one array per tier, in the shape of ``hosts``.

        Groups of which the parts repeat alike take the same time; that is all their numbers mean.
        """
