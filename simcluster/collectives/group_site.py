"""Where a group of ranks is, as algorithms see it: units (hosts or pods), rails and links inside units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simcluster.cluster import GroupPlacement, Host, Reach, Topology, Wiring
from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints


@dataclass(frozen=True, slots=True, eq=False)
class GroupSite:
    """A group in units: its hosts, or pods where it lies on several of them.

    Ranks are numbered unit by unit, in each unit as they stand in the group; rank 0 is the group's first.
    """

    order: Ints
    """``order[i]`` is the place in the group of rank i here."""
    units: tuple[int, ...]
    """Ranks of each unit."""
    rail_of: Ints
    """The rail of each rank [n], counted in its unit from 0."""
    rails: int
    """How many rails every unit has."""
    host_of: Ints
    """The host of each rank [n]."""
    pod_of: Ints
    """The pod of each rank [n]; a host of no pod is one by itself."""
    inside: Reach = Reach.HOST
    """How far ranks lie apart in a unit."""
    between: Reach = Reach.NETWORK
    """How far ranks lie apart from unit to unit."""
    hosts_inside: int = 1
    """Hosts that a unit lies on."""
    mesh: Ints | None = None
    """Which ranks of a unit have links of their own to each other [n]: all pairs of equal numbers. None where
    ranks are joined through a switch."""
    widths: Ints | None = None
    """How many links there are between the ranks of every unit [p, p], where only some pairs have any; None
    otherwise."""
    switched: bool = False
    """Whether each unit has a switch that reduces: id ``num_ranks + unit``."""
    aggregated: bool = False
    """Whether the network reduces: what the ranks at one place of all units have meets at a switch of it, id
    ``num_ranks + num_units + place``."""

    @classmethod
    def of_units(
        cls,
        units: Sequence[int],
        rails: int | None = None,
        *,
        mesh: Ints | None = None,
        widths: Ints | None = None,
        switched: bool = False,
        aggregated: bool = False,
    ) -> GroupSite:
        """A group of neighbours with so many ranks in each unit, its rails spread over them."""
        rails = min(units) if rails is None else rails
        if not 1 <= rails <= min(units):
            raise ValueError(f"{rails} rails for units of {tuple(units)} ranks")
        beside = [np.arange(count) * rails // count for count in units]
        rail_of = np.concatenate(beside).astype(np.int64)
        unit_of = np.repeat(np.arange(len(units)), units)
        return cls(
            np.arange(sum(units)),
            tuple(units),
            rail_of,
            rails,
            unit_of,
            unit_of,
            mesh=mesh,
            widths=widths,
            switched=switched,
            aggregated=aggregated,
        )

    @classmethod
    def of(cls, placement: GroupPlacement, topology: Topology, host: Host) -> GroupSite:
        """Where a group of this placement stands, on hosts that collectives see as ``host``."""
        wide = placement.num_pods > 1 and host.pod is not None
        unit_of = placement.pod_of if wide else placement.host_of
        order = np.argsort(unit_of, kind="stable").astype(np.int64)
        units = np.bincount(unit_of)
        hosts = placement.host_of[order]
        # Inside a pod every device is a way out of its host; else its host's network cards are.
        through_pod = not wide and placement.between is Reach.POD and units.size > 1
        rail_of = np.arange(order.size) if through_pod else placement.rail_of[order]
        if wide:
            rail_of = hosts * (int(rail_of.max()) + 1) + rail_of
        unit_of = np.repeat(np.arange(units.size), units)
        rails = int(_different(unit_of, rail_of).min())
        hosts_inside = int(_different(unit_of, hosts).max())
        ranks = placement.ranks[order]
        even = bool((units == units[0]).all())
        return cls(
            order,
            tuple(units.tolist()),
            rail_of,
            rails,
            hosts,
            placement.pod_of[order],
            Reach.POD if hosts_inside > 1 else placement.inside,
            placement.between,
            hosts_inside,
            None if wide else _mesh(ranks, topology, host),
            _widths(ranks[: units[0]], topology, host) if even and not wide else None,
            bool((topology.switch_of(ranks) >= 0).all()),
            units.size > 1 and topology.network.reduces is not None and placement.between is Reach.NETWORK,
        )

    @property
    def num_ranks(self) -> int:
        """Ranks of the group."""
        return int(self.order.size)

    @property
    def num_units(self) -> int:
        """Units of the group."""
        return len(self.units)

    @property
    def most(self) -> int:
        """Ranks of the largest unit."""
        return max(self.units)

    @property
    def fewest(self) -> int:
        """Ranks of the smallest unit."""
        return min(self.units)

    @property
    def is_even(self) -> bool:
        """Whether all units have as many ranks."""
        return self.most == self.fewest

    @property
    def starts(self) -> Ints:
        """The first rank of every unit."""
        return np.concatenate([[0], np.cumsum(self.units)[:-1]]).astype(np.int64)

    @property
    def unit_of(self) -> Ints:
        """The unit of every rank."""
        return np.repeat(np.arange(self.num_units), self.units)

    @property
    def grid(self) -> Ints:
        """The ranks [units, ranks of a unit] of an even group."""
        return np.arange(self.num_ranks).reshape(self.num_units, self.most)

    def heads(self, rail: int) -> Ints:
        """In each unit, the place among its ranks of the first one beside a rail [units].

        Units that lie on different rails use those that all of them have, if there are enough.
        """
        first = self.rail_of[: self.units[0]]
        alike = self.is_even and (self.rail_of[self.grid] == first).all()
        beside = [first] if alike else np.split(self.rail_of, self.starts[1:])
        common = beside[0]
        for cards in beside[1:]:
            common = np.intersect1d(common, cards)
        common = np.unique(common)
        heads = []
        for own in beside:
            cards = common if common.size >= self.rails else np.unique(own)
            heads.append(int(np.argmax(own == cards[rail * cards.size // self.rails])))
        return np.resize(np.array(heads, dtype=np.int64), self.num_units)

    def switch(self, unit: Ints | int) -> Ints:
        """The id of a unit's switch."""
        return np.asarray(unit, dtype=np.int64) + self.num_ranks

    def meeting(self, place: Ints | int) -> Ints:
        """The id of the network's switch over the ranks at a place of every unit of an even group."""
        return np.asarray(place, dtype=np.int64) + self.num_ranks + self.num_units

    @property
    def num_nodes(self) -> int:
        """Ids of ranks and switches."""
        return self.num_ranks + self.num_units + self.most * self.aggregated


def _different(unit_of: Ints, values: Ints) -> Ints:
    """How many different values each unit has."""
    pairs = np.unique(unit_of * (int(values.max()) + 1) + values)
    return np.bincount(pairs // (int(values.max()) + 1))


def _mesh(ranks: Ints, topology: Topology, host: Host) -> Ints | None:
    """The full mesh that each rank is in on its host; None where hosts have none, or only pairs."""
    if host.fabric.wiring is Wiring.FULL_MESH:
        return np.zeros(ranks.size, dtype=np.int64)
    island = host.island
    if island and island.fabric.wiring is Wiring.FULL_MESH and island.num_devices > 2:
        return np.asarray(topology.place_of(ranks) // island.num_devices, dtype=np.int64)
    return None


def _widths(ranks: Ints, topology: Topology, host: Host) -> Ints | None:
    """Links of their own between ranks of a host with a partial mesh, in units of the narrowest.

    None in other hosts, and where all pairs have none or as many.
    """
    if host.fabric.wiring is not Wiring.PARTIAL_MESH or ranks.size < 3:
        return None
    here, there = np.divmod(np.arange(ranks.size**2), ranks.size)
    routes = topology.routes(ranks[here], ranks[there])
    alone = (routes.links >= 0).sum(axis=1) == 1
    if not alone.any():
        return None
    rates = np.where(alone, topology.rates(np.maximum(routes.links[:, 0], 0)), 0.0)
    widths = np.rint(rates / rates[alone].min()).astype(np.int64)
    return np.asarray(widths.reshape(ranks.size, ranks.size), dtype=np.int64)
