"""Every way inside a host, found once for all hosts."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.host.host_graph import Inside
from simcluster.cluster.interconnect import Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The wires from each place of a host to each other.

    ``wires`` [places, places, most wires] are their indices, padded with -1; ``length`` and ``latency`` [s]
    [places, places] are how many and how long. ``length`` is -1 where no wires lead.
    """

    wires: Numbers
    length: Numbers
    latency: NDArray[np.float64]

    @classmethod
    def of(cls, inside: Inside) -> Table:
        """The ways of least cost; among equals each takes what the ways before it have used least."""
        ways = _ways(inside)
        size = len(inside.places)
        longest = max((len(way) for way in ways.values()), default=0)
        wires = np.full((size, size, max(1, longest)), -1, dtype=np.int64)
        length = np.full((size, size), -1, dtype=np.int64)
        latency = np.zeros((size, size))
        for (src, dst), way in ways.items():
            wires[src, dst, : len(way)] = way
            length[src, dst] = len(way)
            latency[src, dst] = sum(inside.wires[wire].latency for wire in way)
        return cls(wires, length, latency)


def _ways(inside: Inside) -> dict[tuple[int, int], tuple[int, ...]]:
    index = {place: number for number, place in enumerate(inside.places)}
    tails = [index[wire.tail] for wire in inside.wires]
    leaving: list[list[tuple[int, int]]] = [[] for _ in inside.places]
    for number, wire in enumerate(inside.wires):
        leaving[tails[number]].append((number, index[wire.head]))
    rates = [wire.rate for wire in inside.wires]
    used = [0] * len(inside.wires)
    choices = {
        (src, dst): options
        for src in range(len(inside.places))
        for dst, options in _equals(inside, leaving, tails, src)
    }
    ways: dict[tuple[int, int], tuple[int, ...]] = {}
    devices = sum(place.startswith("device.") for place in inside.places)
    for pair in sorted(choices, key=lambda pair: (max(pair) >= devices, len(choices[pair]) > 1, pair)):
        ways[pair] = min(
            choices[pair], key=lambda way: (max(((used[w] + 1) / rates[w] for w in way), default=0.0), way)
        )
        for number in ways[pair]:
            used[number] += 1
    return ways


def _equals(
    inside: Inside, leaving: list[list[tuple[int, int]]], tails: list[int], src: int
) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
    """Each place that can be reached, and all ways of least cost to it."""
    cost = {src: 0}
    into: dict[int, list[int]] = {src: []}
    queue = [(0, src)]
    while queue:
        so_far, place = heapq.heappop(queue)
        if so_far > cost[place]:
            continue
        for wire, head in leaving[place]:
            there = so_far + inside.wires[wire].cost
            if head not in cost or there < cost[head]:
                cost[head], into[head] = there, [wire]
                heapq.heappush(queue, (there, head))
            elif there == cost[head]:
                into[head].append(wire)

    def ways(place: int) -> list[tuple[int, ...]]:
        if place == src:
            return [()]
        return [(*way, wire) for wire in into[place] for way in ways(tails[wire])]

    for place in sorted(cost):
        yield place, ways(place)
