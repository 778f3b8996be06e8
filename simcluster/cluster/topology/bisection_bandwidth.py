"""What half of the devices can send to the other half at once: a maximum flow, so a minimum cut.

Hosts of one half on the same switches are interchangeable: they are merged into one node, their links added
up. A flow through the merged graph is one through the real graph, shared evenly among what was merged.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from simcluster.cluster.interconnect import Numbers
from simcluster.cluster.topology.topology import Topology


def bisection_rate(topology: Topology) -> float:
    """Bytes/s that the first half of the devices, by rank, can send to the second half, one way.

    Over links that routes between devices use. Exact where the units of the network are full; where the last
    one is not, an upper bound. 0 for one device.
    """
    if topology.num_devices < 2:
        return 0.0
    links = topology.between_devices()
    tails, heads = topology.ends(links)
    group = _groups(topology, tails, heads)
    size = int(group.max()) + 1
    pairs, index = np.unique(group[tails] * size + group[heads], return_inverse=True)
    rates = np.bincount(index.reshape(-1), weights=topology.rates(links))
    flow = _Flow(size + 2)
    for pair, rate in zip(pairs.tolist(), rates.tolist(), strict=True):
        if pair // size != pair % size:
            flow.join(pair // size, pair % size, rate)
    half = topology.num_devices // 2
    for device in np.unique(group[:half]).tolist():
        flow.join(size, device, float("inf"))
    for device in np.unique(group[half : topology.num_devices]).tolist():
        flow.join(device, size + 1, float("inf"))
    return flow.most(size, size + 1)


def _groups(topology: Topology, tails: Numbers, heads: Numbers) -> Numbers:
    """A number per node, the same for nodes that are merged."""
    hosts = topology.num_hosts
    ranks = np.arange(topology.num_devices)
    host_of = topology.host_of(ranks)
    second = (ranks >= topology.num_devices // 2).astype(np.int64)
    every = np.arange(hosts)
    first = second[np.searchsorted(host_of, every, side="left")]
    last = second[np.searchsorted(host_of, every, side="right") - 1]
    alike = np.where(first == last, first, 2 + every)  # a host across the middle stands alone
    parts = topology.network.distinguishing_parts(every)
    for part in parts:
        alike = np.unique(np.stack([alike, part]), axis=1, return_inverse=True)[1].reshape(-1)
    kinds = topology.kinds()
    node_host = topology.host_of(np.arange(topology.num_nodes))
    own = np.where(node_host >= 0, alike[node_host], -1)
    own[: topology.num_devices] = alike[host_of] * 2 + second
    own[topology.num_devices :] = np.where(
        own[topology.num_devices :] >= 0, own[topology.num_devices :] * 2, -1
    )
    # Switches outside hosts: known by the halves that lie under them, tier by tier.
    under = np.full(topology.num_nodes, -1, dtype=np.int64)
    under[node_host >= 0] = alike[node_host[node_host >= 0]]
    for _ in range(4):
        for one, other in ((tails, heads), (heads, tails)):
            open_ = (under[one] == -1) & (under[other] != -1)
            nodes, seen = one[open_], under[other][open_]
            low, high = np.full_like(under, np.iinfo(np.int64).max), np.full_like(under, -1)
            np.minimum.at(low, nodes, seen)
            np.maximum.at(high, nodes, seen)
            new = np.unique(nodes)
            under[new] = np.where(
                low[new] == high[new], low[new], -2 - (new if topology.network.switches_differ else 0)
            )
    outside = node_host < 0
    own[outside] = under[outside]
    key = np.stack([kinds, own])
    return np.asarray(np.unique(key, axis=1, return_inverse=True)[1].reshape(-1), dtype=np.int64)


class _Flow:
    """A network with capacities; Dinic's algorithm."""

    def __init__(self, size: int) -> None:
        self._to: list[int] = []
        self._left: list[float] = []
        self._at: list[list[int]] = [[] for _ in range(size)]

    def join(self, tail: int, head: int, rate: float) -> None:
        """Adds a link one way."""
        for end, other, left in ((tail, head, rate), (head, tail, 0.0)):
            self._at[end].append(len(self._to))
            self._to.append(other)
            self._left.append(left)

    def most(self, source: int, sink: int) -> float:
        """The maximum flow."""
        total = 0.0
        while (levels := self._levels(source))[sink] >= 0:
            tried = [0] * len(self._at)
            while pushed := self._push(source, sink, float("inf"), levels, tried):
                total += pushed
        return total

    def _levels(self, source: int) -> list[int]:
        level = [-1] * len(self._at)
        level[source] = 0
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for edge in self._at[node]:
                if self._left[edge] > 1e-3 and level[self._to[edge]] < 0:
                    level[self._to[edge]] = level[node] + 1
                    queue.append(self._to[edge])
        return level

    def _push(self, node: int, sink: int, most: float, levels: list[int], tried: list[int]) -> float:
        if node == sink:
            return most
        while tried[node] < len(self._at[node]):
            edge = self._at[node][tried[node]]
            head = self._to[edge]
            if self._left[edge] > 1e-3 and levels[head] == levels[node] + 1:
                pushed = self._push(head, sink, min(most, self._left[edge]), levels, tried)
                if pushed:
                    self._left[edge] -= pushed
                    self._left[edge ^ 1] += pushed
                    return pushed
            tried[node] += 1
        return 0.0
