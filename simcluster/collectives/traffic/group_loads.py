"""The loads of many groups of one placement: worked out for few of them, carried over to all others."""

from __future__ import annotations

import numpy as np

from simcluster.cluster import Topology, equal_rows
from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.step import Routine
from simcluster.collectives.traffic.link_loads import PhaseLoad, normalised, numbered, phases
from simcluster.collectives.traffic.unequal_parts import UnequalParts
from simcluster.number_arrays import Ints


def group_loads_of(
    routine: Routine, site: GroupSite, members: Ints, topology: Topology, parts: UnequalParts | None = None
) -> list[PhaseLoad]:
    """The phases of a routine for the groups ``members`` [groups, n] of one placement, in order.

    Adjacent phases with equal loads are one. Of groups on the same places of their hosts only the first is
    looked at; the others load the same links of other hosts, leaves and spines. ``parts``: those of an
    all-to-all, if they are not equal.
    """
    first, index = _examples(topology.place_of(members))
    if len(first) < len(members):
        hosts = topology.host_of(members)
        rows = [np.flatnonzero(index == number) for number in range(len(first))]
        loads = [
            _spread(load, first, rows, hosts, topology)
            for load in _loads(routine, site, members[first], topology, parts)
        ]
        spread = [load for load in loads if load is not None]
        if len(spread) == len(loads):
            return spread
    return _loads(routine, site, members, topology, parts)


def _loads(
    routine: Routine, site: GroupSite, members: Ints, topology: Topology, parts: UnequalParts | None
) -> list[PhaseLoad]:
    """The phases for every one of these groups, each by its own routes."""
    return [
        normalised(traffic, len(members), topology)
        for traffic in phases(routine, site, members, topology, parts)
    ]


def _examples(places: Ints) -> tuple[Ints, Ints]:
    """One row of each kind, and the kind of every row."""
    if (places == places[:1]).all():
        return np.zeros(1, dtype=np.int64), np.zeros(len(places), dtype=np.int64)
    radix, width = int(places.max()) + 1, places.shape[1]
    if radix**width <= len(places):
        kinds, index = numbered(places @ radix ** np.arange(width)[::-1], radix**width)
        first = np.empty(len(kinds), dtype=np.int64)
        first[index[::-1]] = np.arange(len(places))[::-1]  # of several, the last one written stays
        return first, index
    first, index, _ = equal_rows([places])
    return first.astype(np.int64), index.astype(np.int64)


def _spread(
    load: PhaseLoad, first: Ints, rows: list[Ints], hosts: Ints, topology: Topology
) -> PhaseLoad | None:
    """The load of the ``first`` groups for all groups of their kinds, whose ``rows`` are given by kind."""
    counts, scale = np.zeros(len(hosts), dtype=np.int64), np.zeros(len(hosts))
    parts: list[tuple[Ints, Ints]] = []
    for number, (example, own_groups) in enumerate(zip(first.tolist(), rows, strict=True)):
        own = slice(*load.offsets[number : number + 2].tolist())
        links = topology.moved(load.links[own], hosts[example], hosts[own_groups])
        if links is None:
            return None
        amounts: Ints = np.broadcast_to(load.loads[own], links.shape)
        if (links[:, 1:] < links[:, :-1]).any():
            order = np.argsort(links, axis=1)
            links = np.take_along_axis(links, order, axis=1)
            amounts = np.take_along_axis(amounts, order, axis=1)
        counts[own_groups], scale[own_groups] = links.shape[1], load.scale[number]
        parts.append((links, amounts))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    if len(parts) == 1:
        return PhaseLoad(offsets, parts[0][0].ravel(), parts[0][1].ravel(), scale)
    every, loaded = np.empty(offsets[-1], dtype=np.int64), np.empty(offsets[-1], dtype=np.int64)
    if (counts == counts[0]).all():  # whole rows are moved much faster than single links
        shape = len(counts), int(counts[0])
        for own_groups, (links, amounts) in zip(rows, parts, strict=True):
            every.reshape(shape)[own_groups], loaded.reshape(shape)[own_groups] = links, amounts
        return PhaseLoad(offsets, every, loaded, scale)
    for own_groups, (links, amounts) in zip(rows, parts, strict=True):
        places = offsets[own_groups][:, np.newaxis] + np.arange(links.shape[1])
        every[places], loaded[places] = links, amounts
    return PhaseLoad(offsets, every, loaded, scale)
