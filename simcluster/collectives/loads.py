"""What a routine puts on links: bytes per byte of S, by phase, for many groups of one placement at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.link import Reach
from simcluster.cluster.topology import Topology
from simcluster.collectives.site import Site
from simcluster.collectives.step import Exchange, Ints, Routine, Step

Floats: TypeAlias = NDArray[np.float64]

_Loaded: TypeAlias = tuple[Ints, Floats, NDArray[np.bool_]]

GRAIN = 2.0**-20
"""Loads are whole multiples of this part of what a group's slowest link carries."""

DENSE = 8
"""Keys are numbered by marking them in all there may be where these are at most so many times as many."""

BLOCK = 2**18
"""Routes that are looked up at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """One phase of a routine on the links of many groups.

    Those of group i are ``links[offsets[i]:offsets[i + 1]]``, rising, with ``loads`` normalised to 1 on the
    group's slowest link and rounded to multiples of ``GRAIN``. ``scale`` [groups]: bytes on that link per
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
    return [normal(each, len(members), topology) for each in phases(routine, site, members, topology)]


def phases(routine: Routine, site: Site, members: Ints, topology: Topology) -> list[Traffic]:
    """What every phase of a routine carries for the groups ``members``; adjacent equal ones are one."""
    found: list[Traffic] = []
    last: Load | None = None
    for each in traffic(routine, site, members, topology):
        load = normal(each, len(members), topology)
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
    chunk = routine.cut.arrays / routine.cut.num_chunks
    found: list[_Loaded] = []
    sends: list[tuple[Ints, Ints, float]] = []
    for step in steps:
        # ``Site.of`` finds no network whose root reduces: topologies have none yet.
        assert not step.once, "what switches of the network reduce on the way is not counted"
        each = chunk * step.size * step.repeat
        if isinstance(step, Exchange):
            counted, pairs = _counted(step, site, nodes, topology)
            found += [(key, times * each, network) for key, times, network in counted]
        else:
            pairs = step.sends()
        sends.append((*pairs, each))
    found += _routes(*_distinct(sends, nodes.shape[1]), nodes, topology)
    key, weight, network = (np.concatenate(column) for column in zip(*found, strict=True))
    used, place = _numbered(key, len(nodes) * topology.num_links)
    across = _summed(place[network], weight[network], used.size)
    inside = _summed(place[~network], weight[~network], used.size)
    groups, links = np.divmod(used, topology.num_links)
    if routine.evened:
        across, inside = (_evened(each, groups, topology.families_of(links)) for each in (across, inside))
    return Traffic(groups, links, across, inside)


def _evened(loads: Floats, groups: Ints, kinds: Ints) -> Floats:
    """The most that a group loads on any link of the same kind."""
    kind = groups * (int(kinds.max(initial=0)) + 1) + kinds
    most = np.zeros(int(kind.max(initial=0)) + 1)
    np.maximum.at(most, kind, loads)
    return np.asarray(most[kind], dtype=np.float64)


def _summed(places: Ints, weights: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(places, weights, minlength=size), dtype=np.float64)


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


def _distinct(sends: Sequence[tuple[Ints, Ints, float]], width: int) -> tuple[Ints, Ints, Floats]:
    """Sends [k] from and to ids below ``width`` with their weights; those between the same ids are one."""
    src, dst = (np.concatenate([each[end] for each in sends]) for end in (0, 1))
    weights = np.repeat([each for _, _, each in sends], [len(each) for each, _, _ in sends])
    pairs, place = _numbered(src * width + dst, width * width)
    if len(pairs) == len(src):
        return src, dst, weights
    return *np.divmod(pairs, width), _summed(place, weights, len(pairs))


def _routes(src: Ints, dst: Ints, weights: Floats, nodes: Ints, topology: Topology) -> Iterator[_Loaded]:
    """What the sends of every group load, block by block."""
    if not src.size:
        return
    many = max(1, BLOCK // src.size)
    for first in range(0, len(nodes), many):
        own = nodes[first : first + many]
        for begin in range(0, src.size, BLOCK):
            part = slice(begin, begin + BLOCK)
            groups = np.repeat(np.arange(first, first + len(own)), len(src[part]))
            ends = own[:, src[part]].ravel(), own[:, dst[part]].ravel()
            yield _routed(*ends, groups, np.tile(weights[part], len(own)), topology)


def _routed(here: Ints, there: Ints, groups: Ints, times: Floats, topology: Topology) -> _Loaded:
    """By link of every send: group x links + link, its weight, whether its send is over the network."""
    routes = topology.routes(here, there)
    crossed = routes.links >= 0
    key = (routes.links + (groups * topology.num_links)[:, np.newaxis])[crossed]
    away, weights = (
        np.broadcast_to(each[:, np.newaxis], crossed.shape)[crossed]
        for each in (routes.reach == Reach.NETWORK, times)
    )
    return key, weights, away


def _counted(
    step: Exchange, site: Site, nodes: Ints, topology: Topology
) -> tuple[list[_Loaded], tuple[Ints, Ints]]:
    """What can be counted of an exchange, and the sends that are left.

    Parts of the cluster lie in one another: hosts, pods, units of the network. What leaves a part takes links
    that depend on its sender and on the place of its receiver in its host, and arrives over links that depend
    on its receiver. So where all parts of a tier are equal, it is enough to look at one receiver of each
    place, in another part, and to count it for all.
    """
    rows = step.groups
    counted: list[_Loaded] = []
    left: list[tuple[Ints, Ints]] = []
    below = np.arange(site.num_ranks)
    for number, tier in enumerate(_tiers(site, nodes, topology)):
        lower, upper = below[rows], tier[rows]
        below = tier
        partners = None
        if number:
            places = topology.place_of(nodes[0, rows])
            partners = _partners(lower, upper, site.host_of[rows], places)
        if partners is None:
            left.append(_apart(rows, lower, upper))
            continue
        columns, times = partners
        src = np.broadcast_to(rows[:, np.newaxis, :], (len(rows), *columns.shape)).ravel()
        dst = rows[:, columns].ravel()
        if times:
            groups = np.repeat(np.arange(len(nodes)), src.size)
            ends = nodes[:, src].ravel(), nodes[:, dst].ravel()
            counted.append(_routed(*ends, groups, np.full(len(groups), float(times)), topology))
    src, dst = (np.concatenate([each[end] for each in left]) for end in (0, 1))
    return counted, (src, dst)


def _tiers(site: Site, nodes: Ints, topology: Topology) -> list[Ints]:
    """The part of every rank [n], tier by tier from its host to all; the network's are equal in all groups.

    Where each pair of cards takes a way of its own, the last but one is the pod, and all is left to routes.
    """
    whole = np.zeros(site.num_ranks, dtype=np.int64)
    hosts = topology.host_of(nodes[0, : site.num_ranks])
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


def normal(found: Traffic, num_groups: int, topology: Topology) -> Load:
    """A phase as parts of what each group's slowest link carries."""
    whole = found.network + found.inside
    times = whole / topology.rates(found.links)
    longest, scale = np.zeros(num_groups), np.zeros(num_groups)
    np.maximum.at(longest, found.groups, times)
    slowest = times == longest[found.groups]
    np.maximum.at(scale, found.groups[slowest], whole[slowest])
    # Rounded down, so that the slowest link alone decides how long a group takes by itself.
    loads = np.maximum(np.floor(whole / scale[found.groups] / GRAIN), 1) * GRAIN
    offsets = np.searchsorted(found.groups, np.arange(num_groups + 1))
    return Load(np.asarray(offsets, dtype=np.int64), found.links, loads, scale)


def _alike(one: Load, other: Load) -> bool:
    return (
        np.array_equal(one.offsets, other.offsets)
        and np.array_equal(one.links, other.links)
        and np.array_equal(one.loads, other.loads)
    )
