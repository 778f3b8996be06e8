"""Orders of the ranks of a unit, and the rings and chains made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from simcluster.collectives.group_site import GroupSite
from simcluster.number_arrays import Ints

MOST_CYCLES = 5_000
"""Cycles of a partial mesh that are looked at when its links are shared out."""


def rings(site: GroupSite) -> Ints:
    """The rings through all ranks [rings, n], each for an equal part of the data.

    One unit with a switch: one ring. A mesh: as many as use its links up, or as nearly as whole rings can.
    Several units: see ``chains``; each ring enters a unit at the head of a chain and leaves at its tail, in
    every second unit the other way round, so that it stays on one rail from unit to unit.
    """
    if site.num_units == 1:
        return _cycles(site)
    ways = chains(site)
    if site.num_units % 2 and site.mesh is None and site.widths is None:
        # The last unit cannot turn back: a ring leaves it far from where it entered, for a rail that only the
        # ring's first rank there is beside.
        start, count = int(site.starts[-1]), site.units[-1]
        for channel in ways:
            channel[-1] = start + (channel[-1][0] - start + zigzag_cycle(count)) % count
    return np.array(
        [
            np.concatenate([way if unit % 2 == 0 else way[::-1] for unit, way in enumerate(channel)])
            for channel in ways
        ]
    )


def chains(site: GroupSite) -> list[list[Ints]]:
    """Ways through the ranks of every unit, by channel and unit; a channel's ways start beside one rail.

    Through a switch each rail's way passes the ranks around from the one beside the rail. In full meshes the
    ways zigzag, so that all of them together use each link equally; in a partial one they follow its rings.
    """
    alone = site.num_units == 1
    rails = site.most if alone else site.rails
    heads = [np.array([rail]) if alone else site.heads(rail) for rail in range(rails)]
    if site.mesh is None and site.widths is None:
        return [_rotated(site, head) for head in heads]
    return [
        [
            start + way(at, unit)
            for unit, (start, at) in enumerate(zip(site.starts.tolist(), head.tolist(), strict=True))
        ]
        for way in _ways(site)
        for head in heads
    ]


def _ways(site: GroupSite) -> list[Callable[[int, int], Ints]]:
    """Functions from the place of a head and its unit to a way through the unit that starts there."""
    if site.widths is not None:
        return [partial(_turned, cycle) for cycle in _partial(site.widths)]
    assert site.mesh is not None
    meshes = np.split(site.mesh, site.starts[1:])
    sizes = np.concatenate([np.bincount(mesh) for mesh in meshes])
    both = (False, True) if (sizes % 2).any() else (False,)
    return [partial(_zigzagging, meshes, back) for back in both]


def _turned(cycle: Ints, at: int, unit: int) -> Ints:
    return np.roll(cycle, -int(np.argmax(cycle == at)))


def _rotated(site: GroupSite, heads: Ints) -> list[Ints]:
    """The ranks of every unit around, from a head on."""
    starts, units = site.starts, np.array(site.units)
    if site.is_even:
        return list(starts[:, np.newaxis] + (np.arange(site.most) + heads[:, np.newaxis]) % site.most)
    at = np.arange(site.num_ranks) + np.repeat(heads - starts, units)
    return np.split(np.repeat(starts, units) + at % np.repeat(units, units), starts[1:])


def _zigzagging(meshes: list[Ints], back: bool, at: int, unit: int) -> Ints:
    """Mesh by mesh, that of the head first; every second one the other way round."""
    mesh = meshes[unit]
    own = mesh[at]
    first = int(np.argmax(np.flatnonzero(mesh == own) == at))
    lines = []
    for number, part in enumerate([own, *(other for other in np.unique(mesh) if other != own)]):
        places = np.flatnonzero(mesh == part)
        steps = -zigzag_cycle(places.size) if back else zigzag_cycle(places.size)
        line = places[(first + steps) % places.size]
        lines.append(line[::-1] if number % 2 else line)
    return np.concatenate(lines)


def zigzag_cycle(count: int) -> Ints:
    """0, 1, -1, 2, -2, ... around a circle: its rotations use every pair of an even circle once each way."""
    steps = np.arange(count)
    return np.asarray(np.where(steps % 2, (steps + 1) // 2, -(steps // 2)) % count, dtype=np.int64)


def _cycles(site: GroupSite) -> Ints:
    """Rings within one unit [rings, n]."""
    count = site.num_ranks
    whole = np.arange(count)[np.newaxis]
    if count < 3:
        return whole
    if site.widths is not None:
        return np.array(_partial(site.widths))
    if site.mesh is None:
        return whole
    if np.unique(site.mesh).size > 1:
        return np.array([channel[0] for channel in chains(site)])
    # Walecki's construction: zigzags around a circle, closed through one rank outside it.
    around = zigzag_cycle(count - 1)
    turns = np.arange(count - 1 if count % 2 == 0 else (count - 1) // 2)
    inner = (around + turns[:, None]) % (count - 1)
    forth = np.concatenate([np.full((turns.size, 1), count - 1), inner], axis=1)
    return np.concatenate([forth, forth[:, ::-1]])


def _partial(widths: Ints) -> list[Ints]:
    """The cycles of a partial mesh, both ways round; one through all places where links make none."""
    return [cycle[::way] for cycle in disjoint_cycles(widths) or [np.arange(len(widths))] for way in (1, -1)]


def disjoint_cycles(widths: Ints) -> list[Ints]:
    """As many cycles through all places as share no link, by ``widths`` [p, p]; both ways round are free.

    Looks at the first ``MOST_CYCLES`` cycles; the same widths always give the same ones.
    """
    known = [cycle for _, cycle in zip(range(MOST_CYCLES), _all_cycles(widths), strict=False)]
    bound = int(widths.sum(axis=1).min()) // 2
    best: list[Ints] = []

    def search(left: Ints, first: int, taken: list[Ints]) -> bool:
        nonlocal best
        if len(taken) > len(best):
            best = list(taken)
        if len(best) == bound:
            return True
        if len(taken) + int(left.sum(axis=1).min()) // 2 <= len(best):
            return False
        for index in range(first, len(known)):
            cycle = known[index]
            after = np.roll(cycle, -1)
            if left[cycle, after].min() > 0:
                rest = left.copy()
                rest[cycle, after] -= 1
                rest[after, cycle] -= 1
                if search(rest, index, [*taken, cycle]):
                    return True
        return False

    search(widths.copy(), 0, [])
    return best


def _all_cycles(widths: Ints) -> Iterator[Ints]:
    """Every cycle through all places along links, once for both directions."""
    count = len(widths)
    near = [np.flatnonzero(row).tolist() for row in widths]

    def grow(way: list[int], seen: int) -> Iterator[list[int]]:
        if len(way) == count:
            if widths[way[-1], 0] and way[1] < way[-1]:
                yield way
            return
        for after in near[way[-1]]:
            if not seen >> after & 1:
                yield from grow([*way, after], seen | 1 << after)

    for way in grow([0], 1):
        yield np.array(way, dtype=np.int64)
