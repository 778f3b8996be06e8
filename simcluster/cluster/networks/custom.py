"""Switches and cables as a document writes them; ways by fewest links."""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from simcluster.cluster.interconnect import (
    CardRoutes,
    FabricBuilder,
    LinkFamily,
    NameBlock,
    NetworkFabric,
    NetworkFabricSpec,
    Numbers,
    distinct_hosts,
    hashed,
)
from simcluster.deferred_dataclass import dataclass
from simcluster.document import (
    Bandwidth,
    Duration,
    Figure,
    Name,
    NonNegativeInt,
    PositiveInt,
    Refused,
    Section,
)
from simcluster.errors import nearest

Some = NonNegativeInt | Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)] | Literal["all"]
"""An index, a list of them, or all."""


class AttachSpec(Section):
    """Network cards and the switch they are attached to: ``{hosts: [0, 1], nics: all, switch: leaf0}``."""

    hosts: Some
    """Indices of hosts."""

    nics: Some = "all"
    """Indices of network cards on those hosts."""

    switch: Name
    """Name of one of ``switches``."""

    def cards(self, num_hosts: int, nics: int) -> list[int]:
        """The cards, counted over the cluster; Refused if there are no such hosts or cards."""
        hosts = _listed(self.hosts, num_hosts, "hosts", "host")
        chosen = _listed(self.nics, nics, "nics", "network card")
        return [host * nics + nic for host in hosts for nic in chosen]


class CableSpec(Section):
    """Cables between two switches, in both directions: ``{between: [leaf0, spine], bandwidth: 400 Gbps}``."""

    between: tuple[Name, Name]
    """Names of two of ``switches``."""

    bandwidth: Figure[Bandwidth]
    """Usable bandwidth of one cable in one direction."""

    latency: Figure[Duration] | None = None
    """Latency of the cable and the switch behind it; zero if absent."""

    count: PositiveInt = 1
    """Number of parallel cables."""


class CustomSpec(NetworkFabricSpec):
    """Switches and cables listed one by one: ``{kind: custom, switches: [a, b], attach: [...], links:
    [...]}``.
    """

    kind: Literal["custom"]
    """Switches and cables listed one by one."""

    switches: Annotated[tuple[Name, ...], Field(min_length=1)]
    """Names of the switches."""

    attach: Annotated[tuple[AttachSpec, ...], Field(min_length=1)]
    """Which cards are attached to which switch: every card to exactly one."""

    links: tuple[CableSpec, ...] = ()
    """Cables between switches."""

    ecmp: Literal["ideal", "hash"] = "ideal"
    """Among paths with equally few links, pairs of cards take turns (ideal), or each pair takes the path its
    hash selects."""

    @model_validator(mode="after")
    def _names_are_known(self) -> CustomSpec:
        for index, name in enumerate(self.switches):
            if name in self.switches[:index] or "." in name or "{" in name:
                why = "is listed twice" if name in self.switches[:index] else "has a '.' or '{'"
                raise Refused(f"'{name}' {why}", path=f"switches.{index}")
        named = [(f"attach.{i}.switch", attached.switch) for i, attached in enumerate(self.attach)]
        named += [
            (f"links.{i}.between.{j}", end)
            for i, cable in enumerate(self.links)
            for j, end in enumerate(cable.between)
        ]
        for path, name in named:
            if name not in self.switches:
                raise Refused(f"unknown switch '{name}'", path=path, hint=nearest(name, self.switches))
        pairs = set()
        for index, cable in enumerate(self.links):
            pair = frozenset(cable.between)
            if len(pair) == 1 or pair in pairs:
                why = "a switch is not joined with itself" if len(pair) == 1 else "written above; use count"
                raise Refused(why, path=f"links.{index}.between")
            pairs.add(pair)
        return self

    def check(self, num_hosts: int, nics: int) -> None:
        """Refused if a card is on no switch or on two, or two switches with cards are not connected."""
        attached: dict[int, int] = {}
        for index, entry in enumerate(self.attach):
            try:
                cards = entry.cards(num_hosts, nics)
            except Refused as refused:
                inner = refused.problems[0]
                raise Refused(inner.message, path=f"attach.{index}.{inner.path}") from None
            for card in cards:
                if card in attached:
                    message = f"card {card % nics} of host {card // nics} is on a switch already"
                    raise Refused(message, path=f"attach.{index}")
                attached[card] = index
        missing = [card for card in range(num_hosts * nics) if card not in attached]
        if missing:
            message = f"card {missing[0] % nics} of host {missing[0] // nics} is on no switch"
            raise Refused(message, path="attach")
        self._check_connected()

    def _check_connected(self) -> None:
        """Refused if some cards cannot reach others."""
        near = {name: {name} for name in self.switches}
        for cable in self.links:
            one, other = (near[end] for end in cable.between)
            if one is not other:
                one |= other
                for name in other:
                    near[name] = one
        start = self.attach[0].switch
        for index, attached in enumerate(self.attach):
            if attached.switch not in near[start]:
                message = f"no links lead from '{start}' to '{attached.switch}'"
                raise Refused(message, path=f"attach.{index}.switch")

    def builder(self) -> FabricBuilder:
        """What makes this fabric for given network cards."""
        return partial(Custom, plan=self)


@dataclass(frozen=True, eq=False)
class Custom(NetworkFabric):
    """Switches and cables of a document."""

    kind: ClassVar[str] = "custom"
    spec: ClassVar[type[NetworkFabricSpec]] = CustomSpec

    plan: CustomSpec = None  # type: ignore[assignment]
    _found: dict[tuple[int, int], list[tuple[int, ...]]] = field(default_factory=dict)

    def nodes(self) -> list[NameBlock]:
        """The switches, by their names."""
        names = self.plan.switches
        return [NameBlock("{}", self.site.first_node, (len(names),), (names,))]

    def families(self) -> list[LinkFamily]:
        """A family for each cable and direction: ``leaf0.spine``; with a hash one link per cable."""
        families, first = [], self.site.first_link
        for tail, head, cable in self._directed:
            many = cable.count if self.plan.ecmp == "hash" else 1
            ends = tuple(self.site.first_node + self.plan.switches.index(name) for name in (tail, head))

            def join(members: Numbers, ends: tuple[int, ...] = ends) -> tuple[Numbers, Numbers]:
                return np.full_like(members, ends[0]), np.full_like(members, ends[1])

            rate = cable.bandwidth.value * (cable.count // many) * self.site.cable_rate
            latency = cable.latency.value * self.site.cable_latency if cable.latency else 0.0
            name, shape = (f"{tail}.{head}.{{}}", (many,)) if many > 1 else (f"{tail}.{head}", ())
            families.append(LinkFamily(name, first, shape, (), rate, latency, "network.links", join))
            first += many
        return families

    def attached(self, cards: Numbers) -> Numbers:
        """The switch of each."""
        return self.site.first_node + self._switch_of[cards]

    def cross(self, src: Numbers, dst: Numbers) -> CardRoutes:
        """A route of fewest links; pairs of cards take turns among equal ones, or a hash picks one."""
        one, other = self._switch_of[src], self._switch_of[dst]
        turn = hashed(src, dst) if self.plan.ecmp == "hash" else (src + dst).astype(np.uint64)
        pairs, index = np.unique(one * len(self.plan.switches) + other, return_inverse=True)
        ways = [
            self._ways(int(pair) // len(self.plan.switches), int(pair) % len(self.plan.switches))
            for pair in pairs
        ]
        width = max((len(way) for choices in ways for way in choices), default=0)
        links = np.full((len(src), width), -1, dtype=np.int64)
        for number, choices in enumerate(ways):
            rows = np.flatnonzero(index.reshape(-1) == number)
            table = np.full((len(choices), width), -1, dtype=np.int64)
            for place, way in enumerate(choices):
                table[place, : len(way)] = way
            links[rows] = table[(turn[rows] % np.uint64(len(choices))).astype(np.int64)]
        latency = np.where(links < 0, 0.0, self._latency[links - self.site.first_link]).sum(axis=1)
        return CardRoutes(links, latency)

    @property
    def adds_latency(self) -> bool:
        """Whether a cable has a latency: the library was measured on none of them."""
        return bool(self._latency.any())

    def added_latency(self, src: Numbers, dst: Numbers) -> NDArray[np.float64]:
        """Those of the cables between the cards."""
        return self.cross(src, dst).latency

    @property
    def switches_differ(self) -> bool:
        """Always: any two switches may have different cables."""
        return True

    def distinguishing_parts(self, hosts: Numbers) -> list[Numbers]:
        """The switches of a host's cards."""
        return list(self._switch_of.reshape(-1, self.site.nics)[hosts].T)

    def may_lose(self, links: Numbers) -> bool:
        """Whether all cards still reach one another without these links."""
        families = self.families()
        if not families or links.min() < families[0].first:
            return False
        without = replace(self, site=replace(self.site, dead=frozenset(links.tolist())), _found={})
        ends = np.unique(self._switch_of).tolist()
        try:
            for one in ends:
                for other in ends:
                    without._ways(one, other)
        except ValueError:
            return False
        return True

    def places(self, hosts: Numbers) -> list[Numbers]:
        """The hosts themselves: nothing is said to be alike."""
        return [distinct_hosts(hosts)]

    @cached_property
    def _directed(self) -> list[tuple[str, str, CableSpec]]:
        return [(*ends, cable) for cable in self.plan.links for ends in (cable.between, cable.between[::-1])]

    @cached_property
    def _switch_of(self) -> Numbers:
        switch = np.zeros(self.site.num_hosts * self.site.nics, dtype=np.int64)
        for entry in self.plan.attach:
            switch[entry.cards(self.site.num_hosts, self.site.nics)] = self.plan.switches.index(entry.switch)
        return switch

    @cached_property
    def _latency(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        latencies = [np.full(family.size, family.latency) for family in self.families()]
        return np.concatenate([*latencies, np.zeros(1)])

    def _ways(self, one: int, other: int) -> list[tuple[int, ...]]:
        """All ways of fewest links between two switches, as links; ValueError if there is none."""
        import rustworkx  # here, as it takes longer to load than all the rest of the package

        if (one, other) not in self._found:
            graph = rustworkx.PyDiGraph(multigraph=False)
            graph.add_nodes_from(list(range(len(self.plan.switches))))
            between: dict[tuple[int, int], list[int]] = {}
            for family in self.families():
                assert family.ends is not None
                tail, head = (
                    int(end[0]) - self.site.first_node for end in family.ends(np.zeros(1, np.int64))
                )
                live = [i for i in range(family.first, family.first + family.size) if i not in self.site.dead]
                if live:
                    graph.add_edge(tail, head, None)
                    between[tail, head] = live
            ways: list[tuple[int, ...]] = [()] if one == other else []
            paths = [] if ways else rustworkx.digraph_all_shortest_paths(graph, one, other)
            for path in sorted(map(list, paths)):
                options: list[tuple[int, ...]] = [()]
                for step in pairwise(path):
                    options = [(*way, link) for way in options for link in between[step]]
                ways += options
            if not ways:
                names = self.plan.switches
                raise ValueError(f"no links lead from {names[one]} to {names[other]}")
            self._found[one, other] = ways
        return self._found[one, other]


def _listed(written: int | tuple[int, ...] | str, count: int, key: str, noun: str) -> list[int]:
    if isinstance(written, str):
        return list(range(count))
    indices = [written] if isinstance(written, int) else list(written)
    for index in indices:
        if index >= count:
            raise Refused(f"there is no {noun} {index}; the last of {count:,} is {count - 1}", path=key)
    return indices
