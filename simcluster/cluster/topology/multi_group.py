"""The topology of several groups of hosts: each as it is alone, joined at the roots of their networks.

A trunk leads from each group's root to a core that joins them; it carries as much as all cards of the group
together, so that it never is the narrowest unless a change makes it so. The core adds no
latency of its own, so that two groups of a kind take the time of one; a change of a trunk's latency does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.interconnect import (
    CardRoutes,
    Ends,
    FabricCards,
    Link,
    LinkFamily,
    NameBlock,
    NameTable,
    NetworkFabric,
    NetworkFabricSpec,
    Numbers,
    Reach,
    number_by_appearance,
)
from simcluster.cluster.topology.host_group import HostGroup, MixedRankPlaces, by_group
from simcluster.cluster.topology.topology import Routes, Topology
from simcluster.deferred_dataclass import dataclass

TRUNK = "the cards of the group together: groups are joined by switches that never block"
"""Why a trunk carries what it carries."""


class JoinedTopology(Topology):
    """Nodes, links and routes of several groups of hosts."""

    def __init__(self, groups: tuple[HostGroup, ...]) -> None:
        self.parts = tuple(Topology(group.host, group.num_hosts, group.network) for group in groups)
        self.groups = groups
        self.places = MixedRankPlaces.of(groups)
        self.num_hosts = self.places.first_host[-1]
        self.num_devices = self.places.first_rank[-1]
        others = [part.num_nodes - part.num_devices for part in self.parts]
        self._first_other = self.num_devices + np.cumsum([0, *others])
        self._first_link = np.cumsum([0, *(part.num_links for part in self.parts)])
        self.core = int(self._first_other[-1])
        devices = [self._block(number, part._nodes.blocks[0]) for number, part in enumerate(self.parts)]
        rest = [
            self._block(number, block)
            for number, part in enumerate(self.parts)
            for block in part._nodes.blocks[1:]
        ]
        families = [
            self._family(number, family) for number, part in enumerate(self.parts) for family in part.families
        ]
        self._nodes = NameTable.of([*devices, *rest, NameBlock("network", self.core, ())])
        self._links = NameTable.of([*families, *self._trunks()])
        self.families = tuple(block for block in self._links.blocks if isinstance(block, LinkFamily))
        self._rates = np.array([family.rate for family in self.families])
        self._latencies = np.array([family.latency for family in self.families])
        site = FabricCards(self.num_hosts, 0, Link(0.0, 1.0, 0.0), 0.0, self.core, int(self._first_link[-1]))
        self.network: NetworkFabric = JointNetwork(site, self)

    def trunk(self, groups: Numbers, down: bool) -> Numbers:
        """The link from the roots of groups to the core, or back."""
        return np.asarray(self._first_link[-1] + 2 * groups + down, dtype=np.int64)

    def between_devices(self, *, apart: bool = True) -> Numbers:
        """The links that routes between devices can use: not those to memory, disks or storage."""
        links = [
            part.between_devices(apart=apart) + first
            for part, first in zip(self.parts, self._first_link[:-1].tolist(), strict=True)
        ]
        return np.concatenate([*links, np.arange(self._first_link[-1], self.num_links)])

    def are_network_links(self, links: Numbers) -> NDArray[np.bool_]:
        """See ``Topology.are_network_links``; trunks are."""
        links = np.asarray(links, dtype=np.int64)
        network = np.ones(links.shape, dtype=bool)
        group = np.searchsorted(self._first_link, links, side="right") - 1
        for number, part in enumerate(self.parts):
            members = group == number
            network[members] = part.are_network_links(links[members] - self._first_link[number])
        return network

    def kinds(self) -> Numbers:
        """A number for each node that says what it is, the same in every host of a kind."""
        kinds = np.zeros(self.num_nodes, dtype=np.int64)
        widest = max(int(part.kinds().max()) for part in self.parts) + 1
        for number, part in enumerate(self.parts):
            nodes = self._global(number, np.arange(part.num_nodes))
            kinds[nodes] = part.kinds() + self.groups[number].kind * widest
        kinds[self.core] = len(self.groups) * widest
        return kinds

    def host_of(self, nodes: Numbers) -> Numbers:
        """The host that nodes are in; -1 for those outside hosts."""
        group, own = self._split(nodes)

        def hosts_of(number: int, members: NDArray[np.bool_]) -> Numbers:
            hosts = self.parts[number].host_of(own[members])
            return np.where(hosts >= 0, hosts + self.places.first_host[number], -1)

        return by_group(group, hosts_of)

    def place_of(self, ranks: Numbers) -> Numbers:
        """The index of each device on its host."""
        return self.places.local(ranks)

    def switch_of(self, ranks: Numbers) -> Numbers:
        """See ``Topology.switch_of``."""
        group, own = self._split(np.asarray(ranks, dtype=np.int64))
        return by_group(group, lambda at, members: self._global(at, self.parts[at].switch_of(own[members])))

    def nearest(self, ranks: Numbers, what: str) -> Numbers:
        """See ``Topology.nearest``."""
        group, own = self._split(np.asarray(ranks, dtype=np.int64))
        return by_group(
            group, lambda at, members: self._global(at, self.parts[at].nearest(own[members], what))
        )

    def added_latency(self, ranks: Numbers) -> float:
        """See ``Topology.added_latency``: the most that any group adds, or the way between two does."""
        ranks = np.asarray(ranks, dtype=np.int64)
        group, own = self._split(ranks)
        inside = max(
            part.added_latency(own[group == number])
            for number, part in enumerate(self.parts)
            if (group == number).any()
        )
        ends = np.sort(np.unique(self.host_of(ranks), return_index=True)[1])
        to_core, away = self._added_to_core(ranks[ends]), group[ends] != np.roll(group[ends], -1)
        return float(np.max((to_core + np.roll(to_core, -1))[away], initial=inside))

    def _added_to_core(self, ranks: Numbers) -> NDArray[np.float64]:
        """Seconds from the card of each rank to the core, beyond the library's figure of a step."""
        group, own = self._split(ranks)
        added = np.zeros(len(ranks))
        for number, part in enumerate(self.parts):
            members = group == number
            nics, site = part.host.network.nics, part.network.site
            cards = part.host_of(own[members]) * nics + part.card_of(part.place_of(own[members]))
            switches = (part.network.to_root(cards, False).links >= 0).sum(axis=1)
            added[members] = switches * site.added_hop
        return added

    def card_of(self, places: Numbers) -> Numbers:
        """Refused: groups have different cards; ask the group's own topology in ``parts``."""
        raise ValueError("hosts of several kinds have different cards")

    def routes(self, src: Numbers, dst: Numbers, rail: Numbers | None = None) -> Routes:
        """The routes from nodes ``src`` [pairs] to nodes ``dst`` [pairs], as in one group.

        From group to group they lead over the roots of both networks and the core. ``rail`` counts the cards
        of the source's host; at the destination it is the card as far along.
        """
        src, dst = np.asarray(src, dtype=np.int64), np.asarray(dst, dtype=np.int64)
        (one, here), (other, there) = self._split(src), self._split(dst)
        segments: list[tuple[NDArray[np.bool_], Routes]] = []
        reach = np.full(len(src), Reach.NETWORK, dtype=np.int64)
        reach[src == dst] = Reach.HOST
        latency = np.zeros(len(src))
        away = one != other
        for number, part in enumerate(self.parts):
            first = int(self._first_link[number])
            inside, leaving = (one == number) & ~away, (one == number) & away
            if inside.any():
                inner = part.routes(here[inside], there[inside], None if rail is None else rail[inside])
                segments.append((inside, _moved(inner, first)))
                reach[inside] = inner.reach
            if leaving.any():
                roots = np.full(int(leaving.sum()), part.network.root)
                up = part.routes(here[leaving], roots, None if rail is None else rail[leaving])
                trunk = self.trunk(one[leaving], False)
                segments.append((leaving, _with_trunk(_moved(up, first), trunk, behind=True)))
        for number, part in enumerate(self.parts):
            arriving = (other == number) & away
            if arriving.any():
                turned = None if rail is None else self._turned(rail[arriving], one[arriving], number)
                roots = np.full(int(arriving.sum()), part.network.root)
                down = part.routes(roots, there[arriving], turned)
                trunk = self.trunk(other[arriving], True)
                moved = _moved(down, int(self._first_link[number]))
                segments.append((arriving, _with_trunk(moved, trunk, behind=False)))
        width = sum(segment.links.shape[1] for _, segment in segments)
        links = np.full((len(src), width), -1, dtype=np.int64)
        column = 0
        for members, segment in segments:
            links[members, column : column + segment.links.shape[1]] = segment.links
            latency[members] += segment.latency
            column += segment.links.shape[1]
        return Routes(_packed(links), reach, latency)

    # -- numbers ----------------------------------------------------------------------------------------

    def _split(self, nodes: Numbers) -> tuple[Numbers, Numbers]:
        """The group of nodes (-1: the core) and their numbers in its own topology."""
        device = nodes < self.num_devices
        first_rank = np.array(self.places.first_rank)
        group = np.where(
            device,
            np.searchsorted(first_rank, nodes, side="right") - 1,
            np.searchsorted(self._first_other, nodes, side="right") - 1,
        )
        group = np.where(nodes == self.core, -1, group)
        sizes = np.array([part.num_devices for part in self.parts])
        inner = nodes - self._first_other[group] + sizes[group]
        return np.asarray(group, np.int64), np.asarray(
            np.where(device, nodes - first_rank[group], inner), np.int64
        )

    def _global(self, number: int, nodes: Numbers) -> Numbers:
        """The nodes of a group's own topology, as they are numbered here; -1 stays what it is."""
        size = self.parts[number].num_devices
        inner = nodes - size + self._first_other[number]
        numbers = np.where(nodes < size, nodes + self.places.first_rank[number], inner)
        return np.asarray(np.where(nodes < 0, -1, numbers), dtype=np.int64)

    def _turned(self, rail: Numbers, groups: Numbers, number: int) -> Numbers:
        """The card as far along on hosts of a group as ``rail`` is on the hosts of others."""
        cards = np.array([group.host.network.nics for group in self.groups])
        return np.asarray(rail * cards[number] // cards[groups], dtype=np.int64)

    def _block(self, number: int, block: NameBlock) -> NameBlock:
        """A block of nodes of a group, numbered and called as it is here."""
        pattern, labels = self._named(number, block)
        first = int(self._global(number, np.array(block.first)))
        return replace(block, pattern=pattern, labels=labels, first=first)

    def _family(self, number: int, family: LinkFamily) -> LinkFamily:
        """A family of links of a group, numbered and called as it is here."""
        pattern, labels = self._named(number, family)
        inner = family.ends
        assert inner is not None
        known: Ends = inner

        def ends(members: Numbers) -> tuple[Numbers, Numbers]:
            tails, heads = known(members)
            return self._global(number, tails), self._global(number, heads)

        return replace(
            family,
            pattern=pattern,
            labels=labels,
            first=family.first + int(self._first_link[number]),
            source=f"groups.{number}.{family.source}",
            ends=ends,
        )

    def _named(self, number: int, block: NameBlock) -> tuple[str, tuple[tuple[str, ...] | None, ...]]:
        """Hosts and pods are counted on from the groups before; the rest is called after its group."""
        start = block.pattern.partition(".")[0]
        if start not in ("host", "pod") or not block.shape:
            return f"group.{number}.{block.pattern}", block.labels
        first = self.places.first_host[number]
        if start == "pod":
            before = zip(self.groups[:number], self.parts, strict=False)
            first = sum(-(-group.num_hosts // group.host.num_hosts_per_pod) for group, _ in before)
        counted = tuple(str(first + place) for place in range(block.shape[0]))
        return block.pattern, (counted, *block.labels[1:])

    def _trunks(self) -> list[LinkFamily]:
        """The links between the roots of groups and the core."""
        trunks = []
        for number, (group, part) in enumerate(zip(self.groups, self.parts, strict=True)):
            root = int(self._global(number, np.array(part.network.root)))
            rate = group.num_hosts * group.host.network.nics * group.host.network.link.rate
            for down, name in enumerate(("up", "down")):
                pair = (root, self.core)[:: -1 if down else 1]

                def ends(members: Numbers, pair: tuple[int, ...] = pair) -> tuple[Numbers, Numbers]:
                    return np.full_like(members, pair[0]), np.full_like(members, pair[1])

                first = int(self._first_link[-1]) + 2 * number + down
                trunks.append(
                    LinkFamily(
                        f"group.{number}.trunk.{name}",
                        first,
                        (),
                        (),
                        rate,
                        0.0,
                        "trunk",
                        ends,
                    )
                )
        return trunks


@dataclass(frozen=True, slots=True, eq=False)
class JointNetwork(NetworkFabric):
    """The networks of all groups, cards counted group by group, with the core that joins them."""

    kind: ClassVar[str] = "joined"
    spec: ClassVar[type[NetworkFabricSpec]] = NetworkFabricSpec

    topology: JoinedTopology

    def nodes(self) -> list[NameBlock]:
        """The switches of all groups, and the core."""
        topology = self.topology
        inner = [
            topology._block(number, block)
            for number, part in enumerate(topology.parts)
            for block in part.network.nodes()
        ]
        return [*inner, NameBlock("network", topology.core, ())]

    def families(self) -> list[LinkFamily]:
        """The links between the switches of all groups, and their trunks."""
        topology = self.topology
        inner = [
            topology._family(number, family)
            for number, part in enumerate(topology.parts)
            for family in part.network.families()
        ]
        return [*inner, *topology._trunks()]

    def attached(self, cards: Numbers) -> Numbers:
        """The node at the other end of each card's links."""
        group, own = self._split(cards)
        parts, numbered = self.topology.parts, self.topology._global
        return by_group(group, lambda at, members: numbered(at, parts[at].network.attached(own[members])))

    def cross(self, src: Numbers, dst: Numbers) -> CardRoutes:
        """The routes from cards to cards: inside a group's network, or over the core."""
        (one, here), (other, there) = self._split(src), self._split(dst)
        up, down = self.to_root(src, False), self.to_root(dst, True)
        away = one != other
        links = np.where(away[:, np.newaxis], np.concatenate([up.links, down.links], axis=1), -1)
        latency = np.where(away, up.latency + down.latency, 0.0)
        for number, part in enumerate(self.topology.parts):
            members = (one == number) & ~away
            if members.any():
                inner = part.network.cross(here[members], there[members])
                first = int(self.topology._first_link[number])
                wide = max(links.shape[1], inner.links.shape[1])
                links = np.pad(links, ((0, 0), (0, wide - links.shape[1])), constant_values=-1)
                links[members, : inner.links.shape[1]] = np.where(inner.links >= 0, inner.links + first, -1)
                latency[members] = inner.latency
        return CardRoutes(_packed(links), latency)

    @property
    def root(self) -> int:
        """The core."""
        return self.topology.core

    def to_switch(self, cards: Numbers, switches: Numbers, down: bool) -> CardRoutes:
        """The routes from cards to the core, or down from it."""
        group, own = self._split(cards)
        links = self.topology.trunk(group, down)[:, np.newaxis]
        latency = np.zeros(len(cards))
        for number, part in enumerate(self.topology.parts):
            members = group == number
            if not members.any():
                continue
            to_root = part.network.to_root(own[members], down)
            inner = np.full((len(cards), to_root.links.shape[1]), -1, dtype=np.int64)
            first = int(self.topology._first_link[number])
            inner[members] = np.where(to_root.links >= 0, to_root.links + first, -1)
            links = np.concatenate([links, inner] if down else [inner, links], axis=1)
            latency[members] = to_root.latency
        return CardRoutes(_packed(links), latency)

    @property
    def switches_differ(self) -> bool:
        """Whether switches of any group differ from one another in more than what lies under them."""
        return any(part.network.switches_differ for part in self.topology.parts)

    def distinguishing_parts(self, hosts: Numbers) -> list[Numbers]:
        """The group of each host."""
        first = np.array(self.topology.places.first_host)
        return [np.asarray(np.searchsorted(first, hosts, side="right") - 1, dtype=np.int64)]

    def places(self, hosts: Numbers) -> list[Numbers]:
        """The kinds and groups that hosts [rows, members] are of, and the parts of the networks of these."""
        first = np.array(self.topology.places.first_host)
        group = np.searchsorted(first, hosts, side="right") - 1
        kind = np.array([hosts.kind for hosts in self.topology.groups])[group]
        tiers: list[Numbers] = []
        for row in np.unique(group, axis=0) if hosts.size else ():
            rows = (group == row).all(axis=1)
            for number in np.unique(row).tolist():
                members = np.ix_(rows, np.flatnonzero(row == number))
                parts = self.topology.parts[number].network.places(hosts[members] - first[number])
                for tier, part in enumerate(parts):
                    if tier == len(tiers):
                        tiers.append(np.full(hosts.shape, -1, dtype=np.int64))
                    tiers[tier][members] = part
        return [kind, number_by_appearance(group), *tiers]

    def _split(self, cards: Numbers) -> tuple[Numbers, Numbers]:
        """The group of cards, and their numbers in it."""
        groups = self.topology.groups
        first = np.cumsum([0, *(group.num_hosts * group.host.network.nics for group in groups)])
        group = np.searchsorted(first, cards, side="right") - 1
        return np.asarray(group, np.int64), np.asarray(cards - first[group], np.int64)


def _moved(routes: Routes, first: int) -> Routes:
    """Routes whose links are counted from ``first``."""
    return Routes(np.where(routes.links >= 0, routes.links + first, -1), routes.reach, routes.latency)


def _with_trunk(routes: Routes, trunk: Numbers, *, behind: bool) -> Routes:
    """Routes with a trunk behind or before them."""
    parts: Sequence[Numbers] = [routes.links, trunk[:, np.newaxis]]
    links = np.concatenate(parts if behind else parts[::-1], axis=1)
    return Routes(links, routes.reach, routes.latency)


def _packed(links: Numbers) -> Numbers:
    """Rows with their links to the front, as narrow as the longest of them."""
    order = np.argsort(links < 0, axis=1, kind="stable")
    width = int((links >= 0).sum(axis=1).max(initial=0))
    return np.take_along_axis(links, order, axis=1)[:, :width]
