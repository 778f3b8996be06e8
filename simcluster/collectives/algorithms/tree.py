"""The double binary tree between hosts, with a chain inside each host."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import ClassVar

import numpy as np

from simcluster.cluster.span import Span
from simcluster.collectives.algorithm import Algorithm, channels
from simcluster.collectives.operation import Operation
from simcluster.collectives.step import Step, hops
from simcluster.collectives.wire import Array, Wire

ROOT = -1
"""The parent of a tree's root."""


class Tree(Algorithm):
    """All-reduce in logarithmic depth: up two complementary trees of hosts, and down again.

    Each tree carries half of the data; a host that is an inner node of one is a leaf of the other, so that
    no network card sends more than 2 S / rails (S / rails between two hosts, where ring needs almost
    twice that). Inside a host the ranks form one chain per rail, whose head talks to the network; the chains
    are rotated, so that a device sends at most 2 S and less where it is some chain's head or tail. After
    the first bytes have passed 2 (p - 1) links inside hosts and twice the trees' depth between them,
    everything streams.
    """

    kind: ClassVar[str] = "tree"
    operations: ClassVar[frozenset[Operation]] = frozenset({Operation.ALL_REDUCE})

    def steps(self, operation: Operation, span: Span, num_bytes: float) -> tuple[Step, ...]:
        """See ``Algorithm.steps``; what they are is told above."""
        hosts, mates = span.num_hosts, span.ranks_per_host
        rails = span.rails if hosts > 1 else mates
        # The wider the rails stand apart, the fewer ranks are the head or the tail of some chain.
        ends = max(0, 3 - -(-mates // rails))
        inside = num_bytes * (2 - ends / rails) if mates > 1 else 0.0
        between = num_bytes / rails * _busiest(hosts)
        return (*hops(2 * _depth(hosts), 2 * (mates - 1)), Step(1, None, (inside, between)))

    def run(
        self, operation: Operation, arrays: Sequence[Array], wire: Wire, reduction: np.ufunc = np.add
    ) -> list[Array]:
        """See ``Algorithm.run``."""
        hosts = len(wire.ranks_per_host)
        rails = wire.rails if hosts > 1 else wire.num_ranks
        held = [channels(array, 2 * rails) for array in arrays]
        rounds = 0
        for rail in range(rails):
            chains = [_chain(wire, host, rail, rails) for host in range(hosts)]
            for number, parents in enumerate(_trees(hosts)):
                links = _links(chains, parents)
                parts = [parts[2 * rail + number] for parts in held]
                rounds = max(rounds, _all_reduce(parts, links, wire, reduction, rail))
                for rank, part in enumerate(parts):
                    held[rank][2 * rail + number] = part
        wire.num_rounds += rounds
        return [np.concatenate(parts).reshape(arrays[0].shape) for parts in held]


def _links(chains: list[list[int]], parents: tuple[int, ...]) -> list[tuple[int, int]]:
    """The transfers (from, to) towards the root, in order: along the chains, then from host to host."""
    inside = [(chain[place], chain[place - 1]) for chain in chains for place in range(len(chain) - 1, 0, -1)]
    upwards = sorted(range(len(parents)), key=lambda host: -_level(parents, host))
    between = [(chains[host][0], chains[parents[host]][0]) for host in upwards if parents[host] != ROOT]
    return inside + between


def _all_reduce(
    parts: list[Array], links: list[tuple[int, int]], wire: Wire, reduction: np.ufunc, rail: int
) -> int:
    """All-reduces one part of the data in place; returns how many transfers waited for one another."""
    rounds = [0] * len(parts)
    for src, dst in links:
        parts[dst] = reduction(parts[dst], wire.send(src, dst, parts[src], rail))
        rounds[dst] = max(rounds[dst], rounds[src] + 1)
    for dst, src in reversed(links):
        parts[dst] = wire.send(src, dst, parts[src], rail)
        rounds[dst] = rounds[src] + 1
    return max(rounds)


def _chain(wire: Wire, host: int, rail: int, rails: int) -> list[int]:
    """The ranks of a host, first the one that talks to the network on ``rail``."""
    mates = wire.members(host)
    head = -(-rail * len(mates) // rails)
    return mates[head:] + mates[:head]


@cache
def _trees(hosts: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The parents of each host in both trees: the second mirrors the first, or shifts it if hosts are odd."""
    first = tuple(_parent(hosts, host) for host in range(hosts))
    if hosts % 2 == 0:
        second = [hosts - 1 - first[hosts - 1 - host] for host in range(hosts)]
        second[hosts - 1] = ROOT
    else:
        second = [(first[host - 1] + 1) % hosts for host in range(hosts)]
        second[1 % hosts] = ROOT
    return first, tuple(second)


def _parent(hosts: int, host: int) -> int:
    """In-order binary tree: the odd hosts are leaves, host 0 is the root."""
    if host == 0:
        return ROOT
    bit = host & -host
    parent = (host ^ bit) | (bit << 1)
    return parent if parent < hosts else host ^ bit


def _level(parents: tuple[int, ...], host: int) -> int:
    level = 0
    while parents[host] != ROOT:
        host, level = parents[host], level + 1
    return level


@cache
def _depth(hosts: int) -> int:
    """Links from the root to the farthest host."""
    return max(_level(parents, host) for parents in _trees(hosts) for host in range(hosts))


@cache
def _busiest(hosts: int) -> float:
    """How often the busiest host sends the data: to its parents and its children, half of it per tree."""
    sends = np.zeros(hosts, dtype=np.int64)
    for parents in _trees(hosts):
        for host, parent in enumerate(parents):
            if parent != ROOT:
                sends[[host, parent]] += 1
    return float(sends.max()) / 2
