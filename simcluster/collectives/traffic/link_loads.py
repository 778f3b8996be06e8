"""What a routine puts on links: bytes per byte of S, by phase, for many groups of one placement at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster import Reach, Topology
from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.step import AlgorithmStep, GroupExchange, Routine
from simcluster.collectives.traffic.exchange_counts import count_exchange
from simcluster.collectives.traffic.unequal_parts import UnequalParts
from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Floats, Ints

_Loaded: TypeAlias = tuple[Ints, Floats, NDArray[np.bool_]]

GRAIN = 2.0**-20
"""Loads are whole multiples of this part of what a group's slowest link carries."""

DENSE = 8
"""Keys are numbered by marking them in all there may be where these are at most so many times as many."""

BLOCK = 2**18
"""Routes that are looked up at once."""


@dataclass(frozen=True, slots=True, eq=False)
class PhaseLoad:
    """One phase of a routine on the links of many groups.

    Those of group i are ``links[offsets[i]:offsets[i + 1]]``, rising, with ``loads`` in units of ``GRAIN``
    of what the group's slowest link carries. ``scale`` [groups]: bytes on that link per byte of S. A phase
    that uses no link has none.
    """

    offsets: Ints
    links: Ints
    loads: Ints
    scale: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Bytes per byte of S in one phase: of ``groups`` and ``links`` (pairs rising), by sends between hosts
    over the network and by all others. ``reduced``: bytes that one reduction in the network takes in from
    each side.
    """

    groups: Ints
    links: Ints
    network: Floats
    inside: Floats
    reduced: float = 0.0

    def times(self, factor: float) -> Traffic:
        """So many times as much."""
        return replace(
            self,
            network=self.network * factor,
            inside=self.inside * factor,
            reduced=self.reduced * factor,
        )


def phases(
    routine: Routine, site: GroupSite, members: Ints, topology: Topology, parts: UnequalParts | None = None
) -> list[Traffic]:
    """What every phase of a routine carries for the groups ``members``; adjacent equal ones are one."""
    if len(members) == 1 and parts is None:
        return list(_phases_of_one(routine, site, members.astype(np.int64).tobytes(), topology))
    return _together(routine, site, members, topology, parts)


@lru_cache(maxsize=2**6)  # what is priced is loaded on links next
def _phases_of_one(
    routine: Routine, site: GroupSite, group: bytes, topology: Topology
) -> tuple[Traffic, ...]:
    """The phases for a single group, of these ranks."""
    members = np.frombuffer(group, dtype=np.int64)[np.newaxis]
    return tuple(_together(routine, site, members, topology, None))


def _together(
    routine: Routine, site: GroupSite, members: Ints, topology: Topology, parts: UnequalParts | None
) -> list[Traffic]:
    traffics: list[Traffic] = []
    last: PhaseLoad | None = None
    for traffic in phase_traffic(routine, site, members, topology, parts):
        load = normalised(traffic, len(members), topology)
        if last and _alike(last, load):
            before = traffics.pop()
            traffic = Traffic(
                traffic.groups,
                traffic.links,
                traffic.network + before.network,
                traffic.inside + before.inside,
                traffic.reduced + before.reduced,
            )
        traffics.append(traffic)
        last = load
    return traffics


def phase_traffic(
    routine: Routine, site: GroupSite, members: Ints, topology: Topology, parts: UnequalParts | None = None
) -> Iterator[Traffic]:
    """The phases of a routine: steps that stream behind one another are one."""
    nodes = _nodes(site, members, topology)
    if parts is not None:
        sizes = parts.of_chunks(routine.cut, site.order)
        for phase in _phases(routine.steps):
            yield _uneven(phase, sizes, nodes, topology).times(parts.share)
        return
    known: list[tuple[AlgorithmStep, Traffic]] = []
    for phase in _phases(routine.steps):
        # Gathering often sends the same way as reducing did.
        alike = [traffic for step, traffic in known if len(phase) == 1 and _go_alike(step, phase[0])]
        traffic = alike[0] if alike else _traffic(phase, routine, site, nodes, topology)
        if len(phase) == 1 and not alike:
            known.append((phase[0], traffic))
        yield traffic


def _phases(steps: Sequence[AlgorithmStep]) -> Iterator[list[AlgorithmStep]]:
    phase: list[AlgorithmStep] = []
    for step in steps:
        if phase and not step.streams:
            yield phase
            phase = []
        phase.append(step)
    if phase:
        yield phase


def _go_alike(one: AlgorithmStep, other: AlgorithmStep) -> bool:
    """Whether two steps send as much between the same ranks."""
    if (one.size, one.repeat, one.once) != (other.size, other.repeat, other.once):
        return False
    if isinstance(one, GroupExchange) or isinstance(other, GroupExchange):
        return (
            isinstance(one, GroupExchange)
            and isinstance(other, GroupExchange)
            and np.array_equal(one.groups, other.groups)
        )
    return all(np.array_equal(*ranks) for ranks in zip(one.sends(), other.sends(), strict=True))


def _nodes(site: GroupSite, members: Ints, topology: Topology) -> Ints:
    """The nodes of every group's ranks and switches, by the site's numbers [groups, ids]."""
    ranks = members[:, site.order]
    parts = [ranks]
    if site.switched or site.aggregated:
        parts.append(topology.switch_of(ranks[:, site.starts]))
    if site.aggregated and site.is_even:
        columns = ranks[:, site.grid.T].reshape(-1, site.num_units)
        parts.append(topology.meeting(columns).reshape(len(ranks), site.most))
    return np.concatenate(parts, axis=1)


def _traffic(
    steps: Sequence[AlgorithmStep], routine: Routine, site: GroupSite, nodes: Ints, topology: Topology
) -> Traffic:
    chunk = routine.cut.arrays / routine.cut.num_chunks
    loaded: list[_Loaded] = []
    sends: list[tuple[Ints, Ints, Floats]] = []
    reduced = 0.0
    for step in steps:
        amount = chunk * step.size * step.repeat
        if step.once:
            loaded.append(_once(step, chunk, routine.cut.num_chunks, nodes, topology))
            reduced = max(reduced, amount)
            continue
        if isinstance(step, GroupExchange):
            stood_for, pairs = count_exchange(step, site, nodes, topology)
            for src, dst, times in stood_for:
                groups = np.repeat(np.arange(len(nodes)), src.size)
                ends = nodes[:, src].ravel(), nodes[:, dst].ravel()
                loaded.append(_routed(*ends, groups, np.full(len(groups), times * amount), topology))
        else:
            pairs = step.sends()
        sends.append((*pairs, np.full(len(pairs[0]), amount)))
    if sends:
        loaded += _routes(*_distinct(sends, nodes.shape[1]), nodes, topology)
    whole = replace(_gathered(loaded, nodes, topology), reduced=reduced)
    if not routine.evened:
        return whole
    kinds = topology.families_of(whole.links)
    across, inside = (_evened(amounts, whole.groups, kinds) for amounts in (whole.network, whole.inside))
    return replace(whole, network=across, inside=inside)


def _once(step: AlgorithmStep, chunk: float, num_chunks: int, nodes: Ints, topology: Topology) -> _Loaded:
    """What a step loads in which a link carries each chunk once, however many sends pass it there."""
    assert step.repeat == 1, "what moves on from round to round is not counted"
    src, dst = step.sends()
    groups = np.repeat(np.arange(len(nodes)), src.size)
    passed, numbers, _ = _routed(
        nodes[:, src].ravel(), nodes[:, dst].ravel(), groups, np.arange(groups.size), topology
    )
    carried = step.chunks(0)[numbers % src.size]
    keys = np.unique(passed[:, np.newaxis] * num_chunks + carried) // num_chunks
    return keys, np.full(len(keys), chunk), np.ones(len(keys), dtype=np.bool_)


def _uneven(steps: Sequence[AlgorithmStep], sizes: Floats, nodes: Ints, topology: Topology) -> Traffic:
    """What chunks of these sizes load, send by send; whole sizes give exact sums."""
    sends = []
    for step in steps:
        src, dst = step.sends()
        carried = np.zeros(len(src))
        for number in range(step.repeat):
            carried += sizes[step.chunks(number)].sum(axis=1)
        some = carried > 0
        sends.append((src[some], dst[some], carried[some]))
    return _gathered(list(_routes(*_distinct(sends, nodes.shape[1]), nodes, topology)), nodes, topology)


def _gathered(found: Sequence[_Loaded], nodes: Ints, topology: Topology) -> Traffic:
    """What was loaded piece by piece, by group and link."""
    if not found:
        none = np.zeros(0)
        return Traffic(none.astype(np.int64), none.astype(np.int64), none, none)
    key, weight, network = (np.concatenate(column) for column in zip(*found, strict=True))
    used, place = numbered(key, len(nodes) * topology.num_links)
    across = _summed(place[network], weight[network], used.size)
    inside = _summed(place[~network], weight[~network], used.size)
    groups, links = np.divmod(used, topology.num_links)
    return Traffic(groups, links, across, inside)


def _evened(loads: Floats, groups: Ints, kinds: Ints) -> Floats:
    """The most that a group loads on any link of the same kind."""
    kind = groups * (int(kinds.max(initial=0)) + 1) + kinds
    most = np.zeros(int(kind.max(initial=0)) + 1)
    np.maximum.at(most, kind, loads)
    return np.asarray(most[kind], dtype=np.float64)


def _summed(places: Ints, weights: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(places, weights, minlength=size), dtype=np.float64)


def numbered(keys: Ints, size: int) -> tuple[Ints, Ints]:
    """The different keys, rising, and the place of each among them; keys are below ``size``."""
    if size > DENSE * keys.size:
        order = _rising(keys, size)
        ordered = keys[order]
        starts = np.ones(keys.size, dtype=np.bool_)
        starts[1:] = ordered[1:] != ordered[:-1]
        place = np.empty(keys.size, dtype=np.int64)
        place[order] = np.cumsum(starts) - 1
        return ordered[starts], place
    seen = np.zeros(size, dtype=np.bool_)
    seen[keys] = True
    used = np.flatnonzero(seen)
    number = np.empty(size, dtype=np.int64)
    number[used] = np.arange(used.size)
    return used, number[keys]


def _rising(keys: Ints, size: int) -> NDArray[np.intp]:
    """The order in which keys below ``size`` rise, by 16 bits at a time: NumPy sorts these without comparing,
    several times as fast as whole keys.
    """
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    for shift in range(16, size.bit_length(), 16):
        order = order[np.argsort((keys[order] >> shift).astype(np.uint16), kind="stable")]
    return order


def _distinct(sends: Sequence[tuple[Ints, Ints, Floats]], width: int) -> tuple[Ints, Ints, Floats]:
    """Sends [k] from and to ids below ``width`` with their weights; those between the same ids are one."""
    src, dst, weights = (np.concatenate(column) for column in zip(*sends, strict=True))
    if np.bincount(src).max(initial=0) <= 1:
        return src, dst, weights
    pairs, place = numbered(src * width + dst, width * width)
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


def _routed(
    here: Ints, there: Ints, groups: Ints, times: NDArray[Any], topology: Topology
) -> tuple[Ints, NDArray[Any], NDArray[np.bool_]]:
    """By link of every send: group x links + link, its weight, whether its send is over the network."""
    routes = topology.routes(here, there)
    crossed = routes.links >= 0
    key = (routes.links + (groups * topology.num_links)[:, np.newaxis])[crossed]
    away, weights = (
        np.broadcast_to(per_send[:, np.newaxis], crossed.shape)[crossed]
        for per_send in (routes.reach == Reach.NETWORK, times)
    )
    return key, weights, away


def normalised(found: Traffic, num_groups: int, topology: Topology) -> PhaseLoad:
    """A phase as parts of what each group's slowest link carries."""
    whole = found.network + found.inside
    times = whole / topology.rates(found.links)
    offsets = np.searchsorted(found.groups, np.arange(num_groups + 1))
    longest = _most(times, offsets)
    scale = _most(np.where(times == longest[found.groups], whole, 0.0), offsets)
    # Rounded down, so that the slowest link alone decides how long a group takes by itself.
    loads = np.maximum(np.floor(whole / scale[found.groups] / GRAIN), 1)
    return PhaseLoad(np.asarray(offsets, dtype=np.int64), found.links, loads.astype(np.int64), scale)


def _most(values: Floats, offsets: Ints) -> Floats:
    """The largest value of every group; 0 of those that have none."""
    most = np.zeros(len(offsets) - 1)
    filled = np.flatnonzero(np.diff(offsets))
    if filled.size:
        most[filled] = np.maximum.reduceat(values, offsets[filled])
    return most


def _alike(one: PhaseLoad, other: PhaseLoad) -> bool:
    return (
        np.array_equal(one.offsets, other.offsets)
        and np.array_equal(one.links, other.links)
        and np.array_equal(one.loads, other.loads)
    )
