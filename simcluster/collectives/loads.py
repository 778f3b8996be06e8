"""What a routine puts on links: bytes per byte of S, by phase, for many groups of one placement at once."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.link import Reach
from simcluster.cluster.topology import Topology
from simcluster.collectives.site import Site
from simcluster.collectives.step import Exchange, Ints, Routine, Step

Floats: TypeAlias = NDArray[np.float64]

_Loaded: TypeAlias = tuple[Ints, float, NDArray[np.bool_]]

GRAIN = 2.0**-20
"""Loads are whole multiples of this part of a group's most loaded link."""

DENSE = 8
"""Keys are numbered by marking them in all there may be where these are at most so many times as many."""

BLOCK = 2**18
"""Routes that are looked up at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """One phase of a routine on the links of many groups.

    Those of group i are ``links[offsets[i]:offsets[i + 1]]``, rising, with ``loads`` normalised to 1 on the
    group's most loaded link and rounded to multiples of ``GRAIN``. ``scale`` [groups]: bytes on that link per
    byte of S. A phase that uses no link has none.
    """

    offsets: Ints
    links: Ints
    loads: Floats
    scale: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Bytes per byte of S in one phase: of ``groups`` and ``links`` (pairs rising), by sends between hosts
    over the network and by all others.
    """

    groups: Ints
    links: Ints
    network: Floats
    inside: Floats


def loads(routine: Routine, site: Site, members: Ints, topology: Topology) -> list[Load]:
    """The phases of a routine for the groups ``members`` [groups, n] of one placement, in order.

    Adjacent phases with equal loads are one.
    """
    return [normal(each, len(members)) for each in phases(routine, site, members, topology)]


def phases(routine: Routine, site: Site, members: Ints, topology: Topology) -> list[Traffic]:
    """What every phase of a routine carries for the groups ``members``; adjacent equal ones are one."""
    found: list[Traffic] = []
    last: Load | None = None
    for each in traffic(routine, site, members, topology):
        load = normal(each, len(members))
        if last and _alike(last, load):
            before = found.pop()
            each = Traffic(
                each.groups, each.links, each.network + before.network, each.inside + before.inside
            )
        found.append(each)
        last = load
    return found


def traffic(routine: Routine, site: Site, members: Ints, topology: Topology) -> Iterator[Traffic]:
    """The phases of a routine: steps that stream behind one another are one."""
    nodes = _nodes(site, members, topology)
    known: list[tuple[Step, Traffic]] = []
    for phase in _phases(routine.steps):
        # Gathering often sends the same way as reducing did.
        alike = [found for step, found in known if len(phase) == 1 and _go_alike(step, phase[0])]
        found = alike[0] if alike else _traffic(phase, routine, site, nodes, topology)
        if len(phase) == 1 and not alike:
            known.append((phase[0], found))
        yield found


def _phases(steps: Sequence[Step]) -> Iterator[list[Step]]:
    phase: list[Step] = []
    for step in steps:
        if phase and not step.streams:
            yield phase
            phase = []
        phase.append(step)
    if phase:
        yield phase


def _go_alike(one: Step, other: Step) -> bool:
    """Whether two steps send as much between the same ranks."""
    if (one.size, one.repeat, one.once) != (other.size, other.repeat, other.once):
        return False
    if isinstance(one, Exchange) or isinstance(other, Exchange):
        return (
            isinstance(one, Exchange)
            and isinstance(other, Exchange)
            and np.array_equal(one.groups, other.groups)
        )
    return all(np.array_equal(*each) for each in zip(one.sends(), other.sends(), strict=True))


def _nodes(site: Site, members: Ints, topology: Topology) -> Ints:
    """The nodes of every group's ranks and switches, by the site's numbers [groups, ids]."""
    ranks = members[:, site.order]
    parts = [ranks]
    if site.switched:
        parts.append(topology.switch_of(ranks[:, site.starts]))
    return np.concatenate(parts, axis=1)


def _traffic(steps: Sequence[Step], routine: Routine, site: Site, nodes: Ints, topology: Topology) -> Traffic:
    chunk = (
        site.num_ranks / routine.cut.num_chunks
        if _is_all_to_all(routine, site)
        else 1 / routine.cut.num_chunks
    )
    size = len(nodes) * topology.num_links
    keys, weights, networks = [], [], []
    for step in steps:
        # ``Site.of`` finds no network whose root reduces: topologies have none yet.
        assert not step.once, "what switches of the network reduce on the way is not counted"
        each = chunk * step.size * step.repeat
        for key, times, network in _sends(step, site, nodes, topology):
            keys.append(key)
            weights.append(np.broadcast_to(times * each, key.shape))
            networks.append(network)
    key, weight = np.concatenate(keys), np.concatenate(weights)
    network = np.concatenate(networks)
    used, place = _numbered(key, size)
    across = _summed(place[network], weight[network], used.size)
    inside = _summed(place[~network], weight[~network], used.size)
    groups, links = np.divmod(used, topology.num_links)
    return Traffic(groups, links, across, inside)


def _summed(places: Ints, weights: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(places, weights, minlength=size), dtype=np.float64)


def _is_all_to_all(routine: Routine, site: Site) -> bool:
    """Whether blocks are n x n, n of which are one rank's S."""
    return routine.cut.blocks == site.num_ranks**2 and site.num_ranks > 1


def _numbered(keys: Ints, size: int) -> tuple[Ints, Ints]:
    """The different keys, rising, and the place of each among them; keys are below ``size``."""
    if size > DENSE * keys.size:
        used, place = np.unique(keys, return_inverse=True)
        return used, place.reshape(-1)
    seen = np.zeros(size, dtype=np.bool_)
    seen[keys] = True
    used = np.flatnonzero(seen)
    number = np.cumsum(seen) - 1
    return used, number[keys]


def _sends(step: Step, site: Site, nodes: Ints, topology: Topology) -> Iterator[_Loaded]:
    """For every link of every send: group x links + link, how many sends it stands for, whether it is of one
    over the network.
    """
    if isinstance(step, Exchange):
        src, dst = yield from _counted(step, site, nodes, topology)
    else:
        src, dst = step.sends()
    for group, own in enumerate(nodes) if nodes.shape[0] * src.size > BLOCK else ():
        for begin in range(0, src.size, BLOCK):
            here, there = own[src[begin : begin + BLOCK]], own[dst[begin : begin + BLOCK]]
            yield _routed(here, there, np.full(here.size, group), topology)
    if nodes.shape[0] * src.size <= BLOCK and src.size:
        groups = np.repeat(np.arange(len(nodes)), src.size)
        yield _routed(nodes[:, src].ravel(), nodes[:, dst].ravel(), groups, topology)


def _routed(here: Ints, there: Ints, groups: Ints, topology: Topology, times: float = 1.0) -> _Loaded:
    routes = topology.routes(here, there)
    crossed = routes.links >= 0
    key = (routes.links + (groups * topology.num_links)[:, np.newaxis])[crossed]
    away = np.broadcast_to((routes.reach == Reach.NETWORK)[:, np.newaxis], crossed.shape)[crossed]
    return key, times, away


def _counted(
    step: Exchange, site: Site, nodes: Ints, topology: Topology
) -> Generator[_Loaded, None, tuple[Ints, Ints]]:
    """What can be counted of an exchange; returns the sends that are left.

    Parts of the cluster lie in one another: hosts, pods, units of the network. What leaves a part takes links
    that depend on its sender and on the place of its receiver in its host, and arrives over links that depend
    on its receiver. So where all parts of a tier are equal, it is enough to look at one receiver of each
    place, in another part, and to count it for all.
    """
    rows = step.groups
    left: list[tuple[Ints, Ints]] = []
    below = np.arange(site.num_ranks)
    for number, tier in enumerate(_tiers(site, nodes, topology)):
        lower, upper = below[rows], tier[rows]
        below = tier
        partners = None
        if number:
            places = nodes[0, rows] % topology.host.num_devices
            partners = _partners(lower, upper, site.host_of[rows], places)
        if partners is None:
            left.append(_apart(rows, lower, upper))
            continue
        columns, times = partners
        src = np.broadcast_to(rows[:, np.newaxis, :], (len(rows), *columns.shape)).ravel()
        dst = rows[:, columns].ravel()
        if times:
            groups = np.repeat(np.arange(len(nodes)), src.size)
            yield _routed(nodes[:, src].ravel(), nodes[:, dst].ravel(), groups, topology, times)
    return (np.concatenate([src for src, _ in left]), np.concatenate([dst for _, dst in left]))


def _tiers(site: Site, nodes: Ints, topology: Topology) -> list[Ints]:
    """The part of every rank [n], tier by tier from its host to all; the network's are equal in all groups.

    Where each pair of cards takes a way of its own, the last but one is the pod, and all is left to routes.
    """
    whole = np.zeros(site.num_ranks, dtype=np.int64)
    hosts = nodes[0, : site.num_ranks] // topology.host.num_devices
    if _is_told_apart(topology):
        return [site.host_of, site.pod_of, np.full(site.num_ranks, -1)]
    units = [part[0] for part in topology.network.places(hosts[np.newaxis])]
    return [site.host_of, site.pod_of, *units, whole]


def _is_told_apart(topology: Topology) -> bool:
    return bool(topology.network.families()) and not topology.network.is_tree


def _partners(lower: Ints, upper: Ints, hosts: Ints, places: Ints) -> tuple[Ints, int] | None:
    """For each column one of every place in a host, in the same ``upper`` part and another ``lower`` one
    [places, columns], and how many each stands for; None unless parts are equal and lie side by side.
    """
    size = lower.shape[1]
    wide, narrow, mates = (_run(part) for part in (upper, lower, hosts))
    if not (wide and narrow and mates) or wide % narrow or narrow % mates or (upper < 0).any():
        return None
    if (places.reshape(len(places), -1, mates) != places[:, np.newaxis, :mates]).any():
        return None
    column = np.arange(size)
    there = column // wide * wide + (column % wide - column % mates + narrow) % wide
    place = (column % mates + np.arange(mates)[:, np.newaxis]) % mates
    return there + place, (wide - narrow) // mates


def _run(values: Ints) -> int:
    """The length of the runs of equal values that every row is made of; 0 if it is not, or they differ."""
    length = int(np.argmax(np.diff(values[0], append=values[0, -1] + 1) != 0)) + 1
    return length if values.shape[1] % length == 0 and _are_runs(values, length) else 0


def _are_runs(values: Ints, length: int) -> bool:
    """Whether each row is runs of one length of equal values, each value in one run."""
    runs = values.reshape(len(values), -1, length)
    if (runs != runs[:, :, :1]).any():
        return False
    heads = np.sort(runs[:, :, 0], axis=1)
    return bool((heads[:, 1:] != heads[:, :-1]).all())


def _apart(groups: Ints, lower: Ints, upper: Ints) -> tuple[Ints, Ints]:
    """All pairs of a row in one ``upper`` part and different ``lower`` ones."""
    width = int(np.argmax(np.diff(upper[0], append=-1) != 0)) + 1
    if groups.shape[1] % width == 0 and _are_runs(upper, width):
        # Only pairs within a part can match.
        groups, lower = groups.reshape(-1, width), lower.reshape(-1, width)
        upper = upper.reshape(-1, width)
    size = groups.shape[1]
    src, dst = [], []
    for skip in range(1, size):
        other, below, above = (np.roll(each, -skip, axis=1) for each in (groups, lower, upper))
        chosen = (lower != below) & (upper == above)
        src.append(groups[chosen])
        dst.append(other[chosen])
    empty = np.zeros(0, dtype=np.int64)
    return np.concatenate([empty, *src]), np.concatenate([empty, *dst])


def normal(found: Traffic, num_groups: int) -> Load:
    """A phase as parts of what each group's most loaded link carries."""
    whole = found.network + found.inside
    scale = np.zeros(num_groups)
    np.maximum.at(scale, found.groups, whole)
    loads = np.maximum(np.rint(whole / scale[found.groups] / GRAIN), 1) * GRAIN
    offsets = np.searchsorted(found.groups, np.arange(num_groups + 1))
    return Load(np.asarray(offsets, dtype=np.int64), found.links, loads, scale)


def _alike(one: Load, other: Load) -> bool:
    return (
        np.array_equal(one.offsets, other.offsets)
        and np.array_equal(one.links, other.links)
        and np.array_equal(one.loads, other.loads)
    )
