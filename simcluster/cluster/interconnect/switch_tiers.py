"""Trees of switches in two or three tiers: leaves that hold cards, spines over leaves, cores over spines.

With ideal spreading the cables from a leaf up are one link of their total rate, and the spines over it one
node. With ``ecmp: hash`` every cable is a link, one from each leaf to each spine over it and one from each
spine to each core over it; a message takes those that the hash of its two cards picks, the same up and down.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.interconnect.group_placement import distinct_hosts, number_by_appearance
from simcluster.cluster.interconnect.in_network_reduction import SwitchReduction
from simcluster.cluster.interconnect.link_families import Ends, LinkFamily, NameBlock, Numbers
from simcluster.cluster.interconnect.network_fabric import CardRoutes, NetworkFabric
from simcluster.deferred_dataclass import dataclass
from simcluster.document import Refused


@dataclass(frozen=True, slots=True, eq=False)
class Tiers(NetworkFabric):
    """A tree over leaves of which each holds ``cards_per_leaf`` cards.

    ``oversubscription``: cards' rate below a switch over that of its cables up, by tier from the leaves.
    ``leaves_per_block``: leaves under one set of spines; 0 where all are, and there is no third tier.
    """

    oversubscription: tuple[float, ...] = (1.0,)
    leaves_per_block: int = 0
    hashed: bool = False
    reduces: SwitchReduction | None = None

    @property
    @abstractmethod
    def cards_per_leaf(self) -> int:
        """Cards of a full leaf."""

    @property
    @abstractmethod
    def num_leaves(self) -> int:
        """Leaves of all hosts."""

    @property
    @abstractmethod
    def leaf_axes(self) -> tuple[str, tuple[int, ...]]:
        """The name of a leaf with ``{}`` for each of its axes, and their sizes."""

    @abstractmethod
    def leaf_of(self, cards: Numbers) -> Numbers:
        """The leaf of each card."""

    @abstractmethod
    def unit_of(self, hosts: Numbers) -> Numbers:
        """The set of leaves that a host's cards are on."""

    @property
    def cables(self) -> int:
        """Cables from a leaf up, where each is a link of its own (``ecmp: hash``)."""
        return int(self.cards_per_leaf / self.oversubscription[0])

    @property
    def core_cables(self) -> int:
        """Cables from a spine up, where each is a link of its own (``ecmp: hash``)."""
        return int(self.leaves_per_block / self.oversubscription[1]) if self.leaves_per_block else 0

    @property
    def num_blocks(self) -> int:
        """Sets of leaves under one set of spines."""
        return -(-self.num_leaves // self.leaves_per_block) if self.leaves_per_block else 1

    def nodes(self) -> list[NameBlock]:
        """Leaves, spines by block, cores."""
        name, axes = self.leaf_axes
        leaves = NameBlock(name, self.site.first_node, axes)
        if self.hashed:
            spines = NameBlock("spine.{}.{}", self._first_spine, (self.num_blocks, self.cables))
            shape: tuple[int, ...] = (self.cables, self.core_cables)
            cores = NameBlock("core.{}.{}", self._first_core, shape)
        else:
            spines = NameBlock("spine.{}", self._first_spine, (self.num_blocks,))
            cores = NameBlock("core", self._first_core, () if self.leaves_per_block else (0,))
        return [leaves, spines, cores] if self.leaves_per_block else [leaves, spines]

    def families(self) -> list[LinkFamily]:
        """Leaves up and down; with a third tier spines up and down."""
        name, axes = self.leaf_axes
        first, hop = self.site.first_link, self.site.hop
        cable = self.site.card.rate
        many = (self.cables,) if self.hashed else ()
        rate = cable if self.hashed else cable * self.cards_per_leaf / self.oversubscription[0]
        families = self._pair(name, axes, many, first, rate, hop, self._leaf_ends)
        if self.leaves_per_block:
            first = families[1].first + families[1].size
            if self.hashed:
                name, axes, many = "spine.{}.{}", (self.num_blocks, self.cables), (self.core_cables,)
            else:
                name, axes = "spine.{}", (self.num_blocks,)
                rate *= self.leaves_per_block / self.oversubscription[1]
            families += self._pair(name, axes, many, first, rate, hop, self._spine_ends)
        return families

    def attached(self, cards: Numbers) -> Numbers:
        """The leaf of each."""
        return self.site.first_node + self.leaf_of(cards)

    def cross(self, src: Numbers, dst: Numbers) -> CardRoutes:
        """Nothing on one leaf, up and down over the spines of one block, else over the cores."""
        families = self.families()
        src_leaf, dst_leaf = self.leaf_of(src), self.leaf_of(dst)
        apart = src_leaf != dst_leaf
        cable, core = self._picked(src, dst)
        if self.hashed:
            up, down = src_leaf * self.cables + cable, dst_leaf * self.cables + cable
        else:
            up, down = src_leaf, dst_leaf
        up, down = up + families[0].first, down + families[1].first
        if not self.leaves_per_block:
            links = np.where(apart[:, np.newaxis], np.stack([up, down], axis=1), -1)
            return CardRoutes(links, apart * 2 * self.site.hop)
        blocks = [leaf // self.leaves_per_block for leaf in (src_leaf, dst_leaf)]
        far = blocks[0] != blocks[1]
        if self.hashed:
            blocks = [(block * self.cables + cable) * self.core_cables + core for block in blocks]
        over, back = blocks[0] + families[2].first, blocks[1] + families[3].first
        none = np.full_like(up, -1)
        columns = [up, np.where(far, over, down), np.where(far, back, none), np.where(far, down, none)]
        links = np.where(apart[:, np.newaxis], np.stack(columns, axis=1), -1)
        return CardRoutes(links, (apart * 2 + far * 2) * self.site.hop)

    @property
    def is_tree(self) -> bool:
        """See ``NetworkFabric.is_tree``: unless a hash picks the way."""
        return not self.hashed

    @property
    def root(self) -> int:
        """The node of all spines or, with a third tier, of all cores; none where a hash picks one of them."""
        if self.hashed:
            return -1
        return self._first_core if self.leaves_per_block else self._first_spine

    def is_over(self, switches: Numbers, cards: Numbers) -> NDArray[np.bool_]:
        """See ``NetworkFabric.is_over``."""
        if self.hashed:
            return np.zeros(np.shape(switches), dtype=np.bool_)
        return np.asarray(np.any([switches == tier for tier in self._above(cards)], axis=0))

    def to_switch(self, cards: Numbers, switches: Numbers, down: bool) -> CardRoutes:
        """Up over the leaf and, with a third tier, the spines, as far as the switch; or down."""
        families, leaf = self.families(), self.leaf_of(cards)
        beyond = switches != self.site.first_node + leaf
        links = [np.where(beyond, families[int(down)].first + leaf, -1)]
        if self.leaves_per_block:
            far = switches == self._first_core
            spine = families[2 + int(down)].first + leaf // self.leaves_per_block
            links.append(np.where(far, spine, -1))
            if down:
                links = [np.where(far, links[1], links[0]), np.where(far, links[0], -1)]
        columns = np.stack(links, axis=1)
        return CardRoutes(columns, (columns >= 0).sum(axis=1) * self.site.hop)

    def meeting(self, cards: Numbers) -> Numbers:
        """The leaf of all cards of each row, or the spines of their block, or the cores."""
        *lower, root = self._above(cards)
        switch = np.broadcast_to(root, cards.shape)[:, 0]
        for tier in lower[::-1]:
            switch = np.where((tier == tier[:, :1]).all(axis=1), tier[:, 0], switch)
        return np.asarray(switch, dtype=np.int64)

    def _above(self, cards: Numbers) -> list[Numbers]:
        """The switches over cards, tier by tier, in their shape."""
        leaf = self.leaf_of(cards)
        lower = [self.site.first_node + leaf]
        if self.leaves_per_block:
            lower.append(self._first_spine + leaf // self.leaves_per_block)
        return [*lower, np.full_like(leaf, self.root)]

    def places(self, hosts: Numbers) -> list[Numbers]:
        """Units and blocks, in order of appearance; the hosts themselves with ``ecmp: hash``."""
        if self.hashed:
            return [distinct_hosts(hosts)]
        return [number_by_appearance(tier) for tier in self._tiers(hosts)]

    def parts(self, hosts: Numbers) -> list[Numbers] | None:
        """See ``NetworkFabric.parts``: of every tier, up and down."""
        return None if self.hashed else [tier for tier in self._tiers(hosts) for _ in range(2)]

    def _tiers(self, hosts: Numbers) -> list[Numbers]:
        """The units that hosts are in, and with a third tier the blocks."""
        if not self.leaves_per_block:
            return [self.unit_of(hosts)]
        return [self.unit_of(hosts), self.leaf_of(hosts * self.site.nics) // self.leaves_per_block]

    @property
    def _first_spine(self) -> int:
        return self.site.first_node + self.num_leaves

    @property
    def _first_core(self) -> int:
        return self._first_spine + self.num_blocks * (self.cables if self.hashed else 1)

    def _picked(self, src: Numbers, dst: Numbers) -> tuple[Numbers, Numbers]:
        """The cable of the leaf and that of the spine which the hash of two cards picks."""
        if not self.hashed:
            return np.zeros_like(src), np.zeros_like(src)
        picked = hashed(src, dst)
        core = picked // np.uint64(self.cables) % np.uint64(max(1, self.core_cables))
        return (picked % np.uint64(self.cables)).astype(np.int64), core.astype(np.int64)

    def _pair(
        self,
        name: str,
        axes: tuple[int, ...],
        many: tuple[int, ...],
        first: int,
        rate: float,
        latency: float,
        ends: Ends,
    ) -> list[LinkFamily]:
        """A family up and one down."""
        tail = ".{}" * len(many)
        shape = (*axes, *many)
        up = LinkFamily(f"{name}.up{tail}", first, shape, (), rate, latency, "network", ends)

        def back(members: Numbers) -> tuple[Numbers, Numbers]:
            tails, heads = ends(members)
            return heads, tails

        down = LinkFamily(f"{name}.down{tail}", first + up.size, shape, (), rate, latency, "network", back)
        return [up, down]

    def _leaf_ends(self, members: Numbers) -> tuple[Numbers, Numbers]:
        leaf, cable = (members // self.cables, members % self.cables) if self.hashed else (members, 0)
        block = leaf // self.leaves_per_block if self.leaves_per_block else leaf * 0
        spine = block * self.cables + cable if self.hashed else block
        return self.site.first_node + leaf, self._first_spine + spine

    def _spine_ends(self, members: Numbers) -> tuple[Numbers, Numbers]:
        if not self.hashed:
            return self._first_spine + members, np.full_like(members, self._first_core)
        spine, cable = members // self.core_cables, members % self.core_cables
        core = spine % self.cables * self.core_cables + cable
        return self._first_spine + spine, self._first_core + core


def check_cables(below: int, over: float, what: str, path: str) -> None:
    """Refused if as many cables up as the oversubscription says are no whole number."""
    cables = below / over
    if cables < 1 or cables != int(cables):
        raise Refused(
            f"ecmp: hash wants whole cables: {below} {what} over {over:g} are {cables:.3g}", path=path
        )


def hashed(src: Numbers, dst: Numbers) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """A pseudo-random number per pair, the same on every machine (the finisher of splitmix64)."""
    with np.errstate(over="ignore"):
        mixed = src.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + dst.astype(np.uint64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return mixed ^ (mixed >> np.uint64(31))
