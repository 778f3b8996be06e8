"""The routes between all places inside a host, computed once for all hosts."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.host.host_graph import HostGraph, Wire
from simcluster.cluster.interconnect import Numbers
from simcluster.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class HostRouteTable:
    """The wires from each place of a host to each other.

    ``wires`` [places, places, most wires] are their indices, padded with -1; ``length`` and ``latency`` [s]
    [places, places] are how many and how long. ``length`` is -1 where no wires lead.
    """

    wires: Numbers
    length: Numbers
    latency: NDArray[np.float64]

    @classmethod
    def of(cls, inside: HostGraph) -> HostRouteTable:
        """The routes of least cost; among equal ones those over a device whose own card it is, as PXN takes
        them, and then each takes the wires used least before it.
        """
        return _table(tuple(inside.places), tuple(inside.wires))


# The search takes some 10 ms, and scenarios have few different hosts.
@lru_cache(maxsize=64)
def _table(places: tuple[str, ...], between: tuple[Wire, ...]) -> HostRouteTable:
    ways = _ways(places, between)
    size = len(places)
    longest = max((len(way) for way in ways.values()), default=0)
    wires = np.full((size, size, max(1, longest)), -1, dtype=np.int64)
    length = np.full((size, size), -1, dtype=np.int64)
    latency = np.zeros((size, size))
    for (src, dst), way in ways.items():
        wires[src, dst, : len(way)] = way
        length[src, dst] = len(way)
        latency[src, dst] = sum(between[wire].latency for wire in way)
    for shared in (wires, length, latency):
        shared.setflags(write=False)
    return HostRouteTable(wires, length, latency)


def _ways(places: Sequence[str], wires: Sequence[Wire]) -> dict[tuple[int, int], tuple[int, ...]]:
    index = {place: number for number, place in enumerate(places)}
    tails = [index[wire.tail] for wire in wires]
    leaving: list[list[tuple[int, int]]] = [[] for _ in places]
    for number, wire in enumerate(wires):
        leaving[tails[number]].append((number, index[wire.head]))
    rates = [wire.rate for wire in wires]
    used = [0] * len(wires)
    choices = {
        (src, dst): options
        for src in range(len(places))
        for dst, options in _equals(wires, leaving, tails, src)
    }
    ways: dict[tuple[int, int], tuple[int, ...]] = {}
    devices = sum(place.startswith("device.") for place in places)
    cards = sum(place.startswith("nic.") for place in places)
    # The card beside the device that a wire leads to, if it leads to one.
    heads = [index[wire.head] for wire in wires]
    beside = [head * cards // devices if head < devices else None for head in heads]

    def chosen(pair: tuple[int, int], options: list[tuple[int, ...]]) -> tuple[int, ...]:
        """Those that pass a device beside the card at one of the ends, and of them that with most left."""
        own = {int(places[end][4:]) for end in pair if places[end].startswith("nic.")}
        near = [way for way in options if any(beside[wire] in own for wire in way)]
        return min(
            near or options,
            key=lambda way: (max(((used[w] + 1) / rates[w] for w in way), default=0.0), way),
        )

    for pair in sorted(choices, key=lambda pair: (max(pair) >= devices, len(choices[pair]) > 1, pair)):
        options = choices[pair]
        ways[pair] = options[0] if len(options) == 1 else chosen(pair, options)
        for number in ways[pair]:
            used[number] += 1
    return ways


def _equals(
    wires: Sequence[Wire], leaving: list[list[tuple[int, int]]], tails: list[int], src: int
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
            there = so_far + wires[wire].cost
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
