"""What tests ask of routes."""

from __future__ import annotations

import numpy as np

from simcluster.cluster.interconnect.link_families import Numbers
from simcluster.cluster.topology.topology import Routes, Topology


def names(topology: Topology, src: int, dst: int) -> list[str]:
    """The links of one route by name."""
    links = topology.routes(np.array([src]), np.array([dst])).links[0]
    return [topology.name(int(link)) for link in links if link >= 0]


def connected(topology: Topology, src: Numbers, dst: Numbers, rail: Numbers | None = None) -> Routes:
    """The routes, each seen to lead link by link from its source to its destination in the time it says."""
    found = topology.routes(src, dst, rail)
    length = (found.links >= 0).sum(axis=1)
    assert (found.links[np.arange(found.links.shape[1]) >= length[:, np.newaxis]] == -1).all(), "no gaps"
    for index, (start, end) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
        links = found.links[index, : length[index]]
        tails, heads = topology.ends(links)
        assert [*heads.tolist(), end][: len(links) + 1] == [*tails.tolist()[1:], end, end][: len(links) + 1]
        assert (tails[0] if len(links) else end) == start
        assert np.isclose(topology.latencies(links).sum(), found.latency[index], rtol=1e-12, atol=0)
        assert len(set(links.tolist())) == len(links), "no link twice"
    return found
