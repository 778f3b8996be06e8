"""The fabric of a cluster as a graph: nodes and directed links by number, and routes between nodes.

Nodes 0 to num_devices - 1 are the devices, by rank; behind them come the places inside hosts (switches, the
PCIe tree, memories), then the switches of pods and of the network. Links come in families, and routes are
composed by formula: the part inside a host is looked up in one table for all hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.host import SHARED, Host, HostRouteTable, Wire, build_host_graph
from simcluster.cluster.interconnect import (
    Ends,
    FabricBuilder,
    FabricCards,
    LinkFamily,
    NameBlock,
    NameTable,
    NetworkFabric,
    Numbers,
    Reach,
    Storage,
)
from simcluster.cluster.networks import Switch
from simcluster.cluster.topology.route_segments import ComposedRoutes, RouteSegment
from simcluster.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Routes between pairs of nodes.

    ``links`` [pairs, most links] in the order in which they are crossed, padded with -1 behind the last;
    ``reach`` [pairs] how far the ends lie apart (a Reach); ``latency`` [pairs] seconds of all links together.
    """

    links: Numbers
    reach: Numbers
    latency: NDArray[np.float64]


class Topology:
    """Nodes, links and routes of ``num_hosts`` equal hosts."""

    def __init__(
        self,
        host: Host,
        num_hosts: int,
        network: FabricBuilder = Switch,
        storage: Storage | None = None,
        dead: Iterable[int] = (),
    ) -> None:
        self.host = host
        self.num_hosts = num_hosts
        self.num_devices = num_hosts * host.num_devices
        self._inside = build_host_graph(host, storage)
        self._table = HostRouteTable.of(self._inside)
        self._index = {place: number for number, place in enumerate(self._inside.places)}
        self._hosts_per_pod = host.pod.num_hosts if host.pod else 1
        self._gate = self._index[self._inside.gate] if self._inside.gate else -1
        self._cards = np.array([self._index[place] for place in self._inside.cards], dtype=np.int64)
        self._node_base = np.zeros(len(self._inside.places), dtype=np.int64)
        self._node_stride = np.zeros(len(self._inside.places), dtype=np.int64)
        self._shared = [self._index[place] for place in SHARED if place in self._index]
        self._common = [self._gate, *self._shared] if self._gate >= 0 else self._shared
        elsewhere = {*self._common, *self._cards.tolist()}
        self._own = [i for i in range(host.num_devices, len(self._inside.places)) if i not in elsewhere]
        self._first_behind_hosts = self.num_devices + num_hosts * len(self._own)
        inner = list(self._inner_nodes())
        first = inner[-1].first + inner[-1].size
        self._first_of_network = first
        self._wire_base = np.zeros(len(self._inside.wires), dtype=np.int64)
        self._wire_stride = np.zeros(len(self._inside.wires), dtype=np.int64)
        families = list(self._inner_families())
        last = families[-1] if families else None
        nics, card, hop = host.network.nics, host.network.link, host.network.hop
        site = FabricCards(
            num_hosts,
            nics,
            card,
            hop,
            first,
            last.first + last.size if last else 0,
            frozenset(dead),
            added_hop=host.network.added_hop,
        )
        self.network: NetworkFabric = network(site)
        self._nodes = NameTable.of([*inner, *self.network.nodes()])
        self._links = NameTable.of([*families, *self.network.families()])
        self.families: tuple[LinkFamily, ...] = tuple(
            block for block in self._links.blocks if isinstance(block, LinkFamily)
        )
        self._rates = np.array([family.rate for family in self.families])
        self._latencies = np.array([family.latency for family in self.families])

    @property
    def num_nodes(self) -> int:
        """Devices and all other nodes."""
        return self._nodes.size

    @property
    def num_links(self) -> int:
        """Directed links of all families."""
        return self._links.size

    def rates(self, links: Numbers) -> NDArray[np.float64]:
        """Nominal usable bytes/s of links, in their shape."""
        return self._rates[self._links.block_of(links)]

    def latencies(self, links: Numbers) -> NDArray[np.float64]:
        """Seconds that links add to a message, in their shape."""
        return self._latencies[self._links.block_of(links)]

    def families_of(self, links: Numbers) -> Numbers:
        """The index in ``families`` of each link's own, in their shape."""
        return np.asarray(self._links.block_of(links), dtype=np.int64)

    def are_network_links(self, links: Numbers) -> NDArray[np.bool_]:
        """Whether links are those of network cards or of the network, in their shape."""
        tails, heads = self.ends(links)
        return np.asarray(np.maximum(tails, heads) >= self._first_of_network)

    def name(self, link: int) -> str:
        """What a link is called: ``host.3.device.2.nvlink.out``; IndexError if there is none."""
        return self._links.name(link)

    def matching(self, pattern: str) -> Numbers:
        """The links whose names fit a pattern such as ``host.3.*``, rising."""
        return self._links.matching(pattern)

    def node_name(self, node: int) -> str:
        """What a node is called: ``host.0.device.3``, ``host.0.switch``; IndexError if there is none."""
        return self._nodes.name(node)

    def node(self, name: str) -> int:
        """The node of a name; KeyError if there is none."""
        nodes = self._nodes.matching(name)
        if nodes.size != 1:
            raise KeyError(name)
        return int(nodes[0])

    def ends(self, links: Numbers) -> tuple[Numbers, Numbers]:
        """The nodes that links lead from and to, in their shape."""
        blocks = self._links.block_of(links)
        tails, heads = np.zeros(np.shape(links), np.int64), np.zeros(np.shape(links), np.int64)
        for index in np.unique(blocks):
            family, chosen = self.families[index], blocks == index
            assert family.ends is not None
            tails[chosen], heads[chosen] = family.ends(links[chosen] - family.first)
        return tails, heads

    def between_devices(self, *, apart: bool = False) -> Numbers:
        """The links that routes between devices can use: not those to memory, disks or storage.

        Links of the network are among them only if there are several hosts, or pods; ``apart``: there are
        others outside this topology.
        """
        devices = np.arange(self.host.num_devices)
        apart = apart or self._num_pods > 1
        gate = [self._gate] if self._gate >= 0 else []
        ends = np.array([*devices, *gate, *(self._cards if apart else [])], dtype=np.int64)
        there, back = self._table.wires[np.ix_(devices, ends)], self._table.wires[np.ix_(ends, devices)]
        used = np.unique(np.concatenate([there.reshape(-1), back.reshape(-1)]))
        hosts = np.arange(self.num_hosts)[:, np.newaxis]
        wires = used[used >= 0]
        inner = (self._wire_base[wires] + hosts * self._wire_stride[wires]).reshape(-1)
        outer = np.arange(self.network.site.first_link if apart else self.num_links, self.num_links)
        return np.concatenate([inner, outer])

    def kinds(self) -> Numbers:
        """A number for each node that says what it is, the same in every host."""
        blocks = np.asarray(self._nodes.block_of(np.arange(self.num_nodes)), dtype=np.int64)
        kinds = len(self._inside.places) + blocks
        kinds[: self.num_devices] = np.arange(self.num_devices) % self.host.num_devices
        inner = np.arange(self.num_devices, self._first_behind_hosts)
        own = np.array(self._own, dtype=np.int64)
        kinds[inner] = own[(inner - self.num_devices) % own.size] if own.size else 0
        return kinds

    def node_kinds(self) -> list[tuple[str, int]]:
        """The kinds of nodes by name, with ``*`` for indices, and how many there are of each."""
        counts: dict[str, int] = {}
        for block in self._nodes.blocks:
            if block.pattern == "{}":  # names of their own
                counts |= dict.fromkeys((block.label(0, place) for place in range(block.size)), 1)
                continue
            for label in (block.labels[1] or ()) if len(block.labels) > 1 else ("",):
                kind = label.partition(".")
                name = block.pattern.format("*", f"{kind[0]}.*" if kind[1] else label) if label else ""
                name = name or block.pattern.replace("{}", "*")
                count = block.shape[0] if label else block.size
                counts[name] = counts.get(name, 0) + count
        return list(counts.items())

    def moved(self, links: Numbers, hosts: Numbers, there: Numbers) -> Numbers | None:
        """The links [groups, links] of the same routes between other hosts.

        ``links`` [links], rising, are those of routes between ``hosts`` [hosts]; in each row of ``there``
        [groups, hosts] other hosts take their places, in groups of one placement. None where the network
        cannot tell.
        """
        here, away = self.network.parts(hosts), self.network.parts(there)
        if here is None or away is None:
            return None
        inner = sum(family.first < self.network.site.first_link for family in self.families)
        pairs = [(hosts, there)] * inner + list(zip(here, away, strict=True))
        moved = np.empty((len(there), len(links)), dtype=np.int64)
        cuts = np.searchsorted(links, [family.first for family in self.families] + [self.num_links])
        for family, (own, others), first, last in zip(self.families, pairs, cuts, cuts[1:], strict=False):
            own_links = links[first:last]
            if not family.shape or not own_links.size:  # a link of its own is the same for all
                moved[:, first:last] = own_links
                continue
            size = family.size // family.shape[0]
            part, place = np.divmod(own_links - family.first, size)
            example = np.zeros(family.shape[0], dtype=np.int64)
            example[own] = np.arange(own.size)
            moved[:, first:last] = others[:, example[part]] * size + (family.first + place)
        return moved

    def host_of(self, nodes: Numbers) -> Numbers:
        """The host that nodes are in; -1 for those outside hosts."""
        inner = (nodes - self.num_devices) // max(1, len(self._own))
        host = np.where(nodes < self.num_devices, nodes // self.host.num_devices, inner)
        return np.asarray(np.where(nodes < self._first_behind_hosts, host, -1), dtype=np.int64)

    def place_of(self, ranks: Numbers) -> Numbers:
        """The index of each device on its host."""
        return ranks % self.host.num_devices

    def switch_of(self, ranks: Numbers) -> Numbers:
        """The node of the switch between each device and its peers, if it reduces (NVLS); else -1."""
        if not self.host.fabric.reduces or "switch" not in self._index:
            return np.full(np.shape(ranks), -1, dtype=np.int64)
        place = self._index["switch"]
        return self._node(ranks // self.host.num_devices, np.int64(place))

    def nearest(self, ranks: Numbers, what: str) -> Numbers:
        """The nearest node to each device, of ``memory``, ``cores``, ``work``, ``disks`` or ``storage``.

        ValueError if hosts have none.
        """
        numa = np.array([self.host.numa_of(place) for place in range(self.host.num_devices)])
        parts = {"memory": numa, "cores": numa * self.host.sockets // self.host.numa_nodes}
        parts["work"] = parts["cores"]
        number = parts[what][self.place_of(ranks)] if what in parts else None
        names = [what] if number is None else [f"{what}.{part}" for part in range(int(parts[what].max()) + 1)]
        if missing := [name for name in names if name not in self._index]:
            raise ValueError(f"{self.host.name} has no {missing[0]}")
        index = np.array([self._index[name] for name in names])
        places = index[number] if number is not None else np.full(np.shape(ranks), index[0])
        return self._node(ranks // self.host.num_devices, places)

    def routes(self, src: Numbers, dst: Numbers, rail: Numbers | None = None) -> Routes:
        """The routes from nodes ``src`` [pairs] to nodes ``dst`` [pairs].

        Nodes are devices, places of hosts and pods, and switches of a network with a root: of these, one end
        is over the other (``network.is_over``).

        Between hosts a message leaves through the card beside its source and arrives through the one beside
        its destination (where the network says that messages change rails inside the source's host, also
        leaves through the card of that index); with ``rail`` [pairs] through the card of that index on both.
        A node's way to itself has no links. ValueError if no links lead from one to the other.
        """
        src, dst = np.asarray(src, dtype=np.int64), np.asarray(dst, dtype=np.int64)
        up, down = np.stack([dst, src]) >= self._first_of_network
        over = np.where(up, dst, src)
        src, dst = np.where(down, dst, src), np.where(up, src, dst)
        (src_host, src_place), (dst_host, dst_place) = self._at(src), self._at(dst)
        src_pod, dst_pod = self._pod(src_host), self._pod(dst_host)
        if self._gate >= 0 and self.host.num_hosts_per_pod > 1:
            near = src_pod == dst_pod  # a pod's switch is a place of each of its hosts
            src_host = np.where(near & (src_place == self._gate), dst_host, src_host)
            dst_host = np.where(near & (dst_place == self._gate), src_host, dst_host)
        for shared in self._shared:  # and storage one of all hosts
            src_host = np.where(src_place == shared, dst_host, src_host)
            dst_host = np.where(dst_place == shared, src_host, dst_host)
        composed = ComposedRoutes(len(src))
        rooted = up | down
        same = (src_host == dst_host) & ~rooted
        pod = ~same & ~rooted & (src_pod == dst_pod) & (self._gate >= 0)
        away = ~same & ~pod & ~rooted
        composed.reach[:] = np.where(same, Reach.HOST, np.where(pod, Reach.POD, Reach.NETWORK))
        if self.host.island:
            composed.reach[same & self._on_one_island(src, dst)] = Reach.ISLAND
        if same.any():
            composed.add(same, [self._segment(src_host[same], src_place[same], dst_place[same])])
        if pod.any():
            gate = np.full(int(pod.sum()), self._gate)
            out = self._segment(src_host[pod], src_place[pod], gate)
            composed.add(pod, [out, self._segment(dst_host[pod], gate, dst_place[pod])])
        if away.any():
            sides = src_host[away], src_place[away], dst_host[away], dst_place[away]
            composed.add(away, self._over_network(*sides, None if rail is None else rail[away]))
        for chosen, downward in ((up, False), (down, True)):
            if chosen.any():
                own = None if rail is None else rail[chosen]
                own_sides = src_host[chosen], src_place[chosen], over[chosen]
                composed.add(chosen, self._by_switch(*own_sides, own, downward))
        return Routes(composed.links, composed.reach, composed.latency)

    def added_latency(self, ranks: Numbers) -> float:
        """Seconds that a step between the hosts of ``ranks``, each to the next, takes at most beyond the
        library's figure of one: cables of a custom network, and switches slower than its own.
        """
        if not self.network.adds_latency:
            return 0.0
        hosts = self.host_of(ranks)
        ends = ranks[np.sort(np.unique(hosts, return_index=True)[1])]
        host, card = self.host_of(ends), self.card_of(self.place_of(ends))
        arrives, nics = np.roll(card, -1), self.host.network.nics
        leaves = arrives if self.network.moves_inside else card
        return float(
            self.network.added_latency(host * nics + leaves, np.roll(host, -1) * nics + arrives).max()
        )

    def card_of(self, places: Numbers) -> Numbers:
        """The index on its host of each device's network card, by the device's index there."""
        beside = np.zeros(len(self._inside.places), dtype=np.int64)
        devices = np.arange(self.host.num_devices)
        beside[: devices.size] = devices * self.host.network.nics // devices.size
        return beside[places]

    def _over_network(
        self, src_host: Numbers, src: Numbers, dst_host: Numbers, dst: Numbers, rail: Numbers | None
    ) -> list[RouteSegment]:
        nics = self.host.network.nics
        arrives = self.card_of(dst) if rail is None else rail
        leaves = arrives if self.network.moves_inside else self.card_of(src) if rail is None else rail
        crossing = self.network.cross(src_host * nics + leaves, dst_host * nics + arrives)
        length = (crossing.links >= 0).sum(axis=1)
        return [
            self._segment(src_host, src, self._cards[leaves]),
            RouteSegment(crossing.links, length, crossing.latency),
            self._segment(dst_host, self._cards[arrives], dst),
        ]

    def _by_switch(
        self, hosts: Numbers, places: Numbers, switches: Numbers, rail: Numbers | None, down: bool
    ) -> list[RouteSegment]:
        """The ways from places of hosts to switches of the network over them, or down from these."""
        card = self.card_of(places) if rail is None else rail
        cards = hosts * self.host.network.nics + card
        lost = ~self.network.is_over(switches, cards)
        if lost.any():
            raise ValueError(f"routes do not lead to {self.node_name(int(switches[lost][0]))}")
        crossing = self.network.to_switch(cards, switches, down)
        outer = RouteSegment(crossing.links, (crossing.links >= 0).sum(axis=1), crossing.latency)
        ends = (self._cards[card], places) if down else (places, self._cards[card])
        inner = self._segment(hosts, *ends)
        return [outer, inner] if down else [inner, outer]

    def meeting(self, ranks: Numbers) -> Numbers:
        """The lowest switch of the network over the cards of all devices of each row [rows, devices]."""
        size = self.host.num_devices
        return self.network.meeting(
            ranks // size * self.host.network.nics + self.card_of(self.place_of(ranks))
        )

    def _segment(self, hosts: Numbers, src: Numbers, dst: Numbers) -> RouteSegment:
        """The ways between places of the same host, one by one."""
        length = self._table.length[src, dst]
        if np.any(length < 0):
            first = int(np.flatnonzero(length < 0)[0])
            names = self._inside.places
            raise ValueError(f"no links lead from {names[int(src[first])]} to {names[int(dst[first])]}")
        most = int(length.max(initial=0))
        places = len(self._table.wires)
        wires = self._table.wires.reshape(places * places, -1)[:, :most].take(src * places + dst, axis=0)
        links = self._wire_base[wires] + hosts[:, np.newaxis] * self._wire_stride[wires]
        return RouteSegment(links, length, self._table.latency[src, dst])

    def _at(self, nodes: Numbers) -> tuple[Numbers, Numbers]:
        """Host and place of nodes; that of a pod's switch is the first host of the pod."""
        size = self.host.num_devices
        host, place = nodes // size, nodes % size
        inner = nodes >= self.num_devices
        if inner.any():
            if nodes.max() >= self._first_of_network:
                raise ValueError(f"routes do not lead to {self.node_name(int(nodes.max()))}")
            own = np.array(self._own, dtype=np.int64)
            chosen = inner & (nodes < self._first_behind_hosts)
            host[chosen] = (nodes[chosen] - self.num_devices) // own.size
            place[chosen] = own[(nodes[chosen] - self.num_devices) % own.size]
            for index in self._common:
                number = nodes - self._node_base[index]
                chosen = inner & (number >= 0) & (number <= (self._num_pods - 1) * self._node_stride[index])
                host[chosen], place[chosen] = number[chosen] * self._hosts_per_pod, index
        return host, place

    def _pod(self, hosts: Numbers) -> Numbers:
        return hosts // self._hosts_per_pod

    @property
    def _num_pods(self) -> int:
        return -(-self.num_hosts // self._hosts_per_pod)

    def _on_one_island(self, src: Numbers, dst: Numbers) -> NDArray[np.bool_]:
        size = self.host.island.num_devices if self.host.island else 1
        devices = (src < self.num_devices) & (dst < self.num_devices)
        return np.asarray(devices & (src // size == dst // size))

    def _node(self, hosts: Numbers, place: Numbers | np.int64) -> Numbers:
        """The node of a place of hosts."""
        unit = np.where(place == self._gate, self._pod(hosts), hosts) if self._gate >= 0 else hosts
        return np.asarray(self._node_base[place] + unit * self._node_stride[place], dtype=np.int64)

    def _inner_nodes(self) -> Iterator[NameBlock]:
        """Devices, then the other places of all hosts, then the switches of pods."""
        devices, names = self.host.num_devices, self._inside.places
        yield NameBlock("host.{}.device.{}", 0, (self.num_hosts, devices))
        self._node_base[:devices], self._node_stride[:devices] = np.arange(devices), devices
        own, first = self._own, self.num_devices
        labels = tuple(names[index] for index in own)
        yield NameBlock("host.{}.{}", first, (self.num_hosts, len(own)), (None, labels))
        self._node_base[own], self._node_stride[own] = first + np.arange(len(own)), len(own)
        first = self._first_behind_hosts
        yield NameBlock("pod.{}.switch", first, (self._num_pods if self._gate >= 0 else 0,))
        if self._gate >= 0:
            self._node_base[self._gate], self._node_stride[self._gate] = first, 1
            first += self._num_pods
        for index in self._shared:
            yield NameBlock(names[index], first, ())
            self._node_base[index], first = first, first + 1

    def _inner_families(self) -> Iterator[LinkFamily]:
        """The links inside hosts, equal ones of one name together."""
        groups: dict[tuple[str, float, float, str], list[int]] = {}
        for number, wire in enumerate(self._inside.wires):
            groups.setdefault((wire.pattern, wire.rate, wire.latency, wire.source), []).append(number)
        first = 0
        for (pattern, rate, latency, source), numbers in groups.items():
            named = pattern.count("{}")
            labels = tuple(self._inside.wires[number].label for number in numbers)
            shape = (self.num_hosts, len(numbers))[:named]
            self._wire_base[numbers] = first + np.arange(len(numbers))
            self._wire_stride[numbers] = len(numbers) if named else 0
            ends = self._ends([self._inside.wires[number] for number in numbers])
            family = LinkFamily(pattern, first, shape, (None, labels)[:named], rate, latency, source, ends)
            yield family
            first += family.size

    def _ends(self, wires: list[Wire]) -> Ends:
        tails = np.array([self._index[wire.tail] for wire in wires])
        heads = np.array([self._index[wire.head] for wire in wires])

        def ends(members: Numbers) -> tuple[Numbers, Numbers]:
            hosts, kind = members // len(wires), members % len(wires)
            return self._end(hosts, tails[kind]), self._end(hosts, heads[kind])

        return ends

    def _end(self, hosts: Numbers, places: Numbers) -> Numbers:
        nodes = self._node(hosts, places)
        cards = np.isin(places, self._cards)
        if cards.any():
            rail = np.searchsorted(self._cards, places[cards])
            nodes[cards] = self.network.attached(hosts[cards] * self.host.network.nics + rail)
        return nodes
