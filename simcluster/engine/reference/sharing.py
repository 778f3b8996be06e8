"""Max-min fair rates of flows that share links (DESIGN 4.8), by progressive filling.

Every flow's rate rises equally until a link of it is full or it reaches its cap. The *share* of a link is
what each of its flows that still rise would get of it: (capacity - used by frozen flows) / their load.
A link is a *local bottleneck* when no flow on it can rise only to less, on another link or to its cap; all
local bottlenecks freeze their flows in one round. A flow's cap is a link of its own.

The rates do not depend on the order of flows or links, nor on whether equal flows on equal links are given
one by one or as one flow with the summed loads, to the last bit: loads are multiples of 2^-20, so their sums
are exact; what a round's flows use of a link is the sum, by ascending rate, of rate x (exact sum of the loads
at that rate), which sees a rate once however many flows have it; and rounds see only shares, never counts.
Components that share no link do not touch each other's numbers, so any union of them may be solved at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.communication import MOST, Vectors

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

Row = Sequence[tuple[int, float]]
"""A flow's (link, load) pairs."""

SMALL = 80
"""Up to this many entries plain Python is faster than arrays (tests/benchmarks/bench_sharing.py)."""


def solve_few(rows: Sequence[Row], caps: Sequence[float], capacity: Sequence[float]) -> list[float]:
    """The rate of every flow (bytes/s on a link with load 1), by plain Python.

    ``capacity`` [links] and ``caps`` [flows] are in bytes/s. Gives the very bits of ``solve_many``.
    """
    load: dict[int, float] = {}
    for row in rows:
        for link, part in row:
            load[link] = load.get(link, 0.0) + part
    _check(max(load.values(), default=0.0))
    used = dict.fromkeys(load, 0.0)
    share = {link: capacity[link] / total for link, total in load.items()}
    rates = list(caps)
    rising = list(range(len(rows)))
    while rising:
        reach = {flow: min([caps[flow], *[share[link] for link, _ in rows[flow]]]) for flow in rising}
        open_links = {link for flow in rising for link, _ in rows[flow] if reach[flow] < share[link]}
        left = []
        spent: dict[tuple[float, int], float] = {}
        for flow in rising:
            rate = reach[flow]
            if rate != caps[flow] and all(link in open_links for link, _ in rows[flow]):
                left.append(flow)
                continue
            rates[flow] = rate
            for link, part in rows[flow]:
                spent[rate, link] = spent.get((rate, link), 0.0) + part
        now: dict[int, float] = {}
        for rate, link in sorted(spent):
            gone = spent[rate, link]
            load[link] -= gone
            now[link] = now.get(link, 0.0) + rate * gone
        for link, more in now.items():
            used[link] += more
            if load[link] > 0:
                # Exactly it never falls; rounding must not make it.
                share[link] = max(share[link], (capacity[link] - used[link]) / load[link])
        rising = left
    return rates


def solve_many(vectors: Vectors, caps: Floats, capacity: Floats) -> Floats:
    """The same for flows with the given rows, by arrays."""
    links, places = _compact(vectors.links, len(capacity))
    if places is not None:
        capacity = capacity[places]
    counts = np.diff(vectors.offsets)
    rates = caps.astype(np.float64)
    rising = np.flatnonzero(counts > 0)
    counts, caps, loads = counts[rising], caps[rising], vectors.loads
    num_links = len(capacity)
    load = np.bincount(links, loads, num_links)
    _check(float(load.max(initial=0.0)))
    used = np.zeros(num_links)
    share = np.divide(capacity, load, out=np.zeros(num_links), where=load > 0)
    while rising.size:
        first = np.cumsum(counts) - counts
        shares = share[links]
        reach = np.minimum(np.minimum.reduceat(shares, first), caps)
        reached = np.repeat(reach, counts)
        full = np.ones(num_links, dtype=bool)
        full[links[reached < shares]] = False
        frozen = np.logical_or.reduceat(full[links], first) | (reach == caps)
        rates[rising[frozen]] = reach[frozen]
        gone = np.repeat(frozen, counts)
        spent_links, spent_loads = links[gone], loads[gone]
        load -= np.bincount(spent_links, spent_loads, num_links)
        used += _used(spent_links, spent_loads, reached[gone], num_links)
        np.maximum(share, np.divide(capacity - used, load, out=share.copy(), where=load > 0), out=share)
        stay, still = ~gone, ~frozen
        links, loads = links[stay], loads[stay]
        rising, counts, caps = rising[still], counts[still], caps[still]
    return rates


def _used(links: Ints, loads: Floats, rates: Floats, num_links: int) -> Floats:
    """What flows use of every link: by ascending rate, rate x exact sum of the loads at that rate."""
    order = np.lexsort((links, rates))
    links, loads, rates = links[order], loads[order], rates[order]
    new = np.concatenate([[True], (links[1:] != links[:-1]) | (rates[1:] != rates[:-1])])
    first = np.flatnonzero(new)
    sums = np.add.reduceat(loads, first)
    # bincount adds in the order of the entries, one after another.
    return np.asarray(np.bincount(links[first], rates[first] * sums, num_links), dtype=np.float64)


def _compact(links: Ints, num_links: int) -> tuple[Ints, Ints | None]:
    """Links numbered among those used, and which they are; as they are (None) where most are used."""
    if num_links <= 4 * len(links):
        return links, None
    places, numbers = np.unique(links, return_inverse=True)
    return numbers.reshape(-1), places


def _check(load: float) -> None:
    if load >= MOST:
        raise ValueError("the loads on one link add up to 2^33 or more: their sum would not be exact")
