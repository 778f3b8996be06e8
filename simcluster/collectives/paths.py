"""Ways through all ranks of a unit, and the rings and chains made of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simcluster.collectives.site import Site
from simcluster.collectives.step import Ints

MOST_CYCLES = 5_000
"""Cycles of a partial mesh that are looked at when its links are shared out."""


def rings(site: Site) -> Ints:
    """The rings through all ranks [rings, n], each for an equal part of the data.

    One unit with a switch: one ring. A mesh: as many as use its links up, or as nearly as whole rings can.
    Several units: see ``chains``; each ring enters a unit at the head of a chain and leaves at its tail, in
    every second unit the other way round, so that it stays on one rail from unit to unit.
    """
    if site.num_units == 1:
        return _cycles(site)
    ways = chains(site)
    return np.array(
        [
            np.concatenate([way if unit % 2 == 0 else way[::-1] for unit, way in enumerate(channel)])
            for channel in ways
        ]
    )


def chains(site: Site) -> list[list[Ints]]:
    """Ways through the ranks of every unit, by channel and unit; a channel's ways start beside one rail.

    Through a switch each rail's way passes the ranks around from the one beside the rail. In a full mesh the
    ways zigzag, so that all of them together use each link equally; in a partial one they follow its rings.
    """
    rails = site.rails if site.num_units > 1 else site.most
    starts = site.starts
    found = []
    heads = [site.heads(rail) if site.num_units > 1 else np.array([rail]) for rail in range(rails)]
    for shape in _shapes(site):
        for head in heads:
            channel = []
            for start, count, at in zip(starts.tolist(), site.units, head.tolist(), strict=True):
                way = shape if shape.size == count else np.arange(count)
                place = int(np.flatnonzero(way == at)[0]) if site.widths is not None and _is_partial(site) else 0
                turned = np.roll(way, -place) if place else way
                around = turned if _is_partial(site) else (way + at) % count
                channel.append(start + around)
            found.append(channel)
    return found


def _is_partial(site: Site) -> bool:
    widths = site.widths
    if widths is None or site.most < 3:
        return False
    apart = widths[~np.eye(len(widths), dtype=bool)]
    return bool(apart.min() != apart.max())


def _shapes(site: Site) -> list[Ints]:
    """Orders of the places in a unit, of which every channel is a rotation."""
    count = site.most
    if site.widths is None or len(site.widths) != count:
        return [np.arange(count)]
    if _is_partial(site):
        return list(_cycles(site))
    forth = zigzag(count)
    return [forth] if count % 2 == 0 else [forth, -forth % count]


def zigzag(count: int) -> Ints:
    """0, 1, -1, 2, -2, ... around a circle: its rotations use every pair of an even circle once each way."""
    steps = np.arange(count)
    return np.asarray(np.where(steps % 2, (steps + 1) // 2, -(steps // 2)) % count, dtype=np.int64)


def _cycles(site: Site) -> Ints:
    """Rings within one unit [rings, n]."""
    count = site.num_ranks
    whole = np.arange(count)[np.newaxis]
    if site.widths is None or count < 3:
        return whole
    if _is_partial(site):
        packed = packing(site.widths) or [whole[0]]
        return np.array([cycle[::way] for cycle in packed for way in (1, -1)])
    # Walecki's construction: zigzags around a circle, closed through one rank outside it.
    around = zigzag(count - 1)
    turns = np.arange(count - 1 if count % 2 == 0 else (count - 1) // 2)
    inner = (around + turns[:, None]) % (count - 1)
    forth = np.concatenate([np.full((turns.size, 1), count - 1), inner], axis=1)
    return np.concatenate([forth, forth[:, ::-1]])


def packing(widths: Ints) -> list[Ints]:
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
