"""Speed of the partition with links: ``pytest tests/benchmarks/bench_symmetry.py``.

16 stages of hosts with 8 devices and a card each, on leaf switches of 32 hosts: rings over tensor, data, and
both, and transfers along the pipeline, over every link they cross.
"""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.layout import Mesh
from simcluster.program.symmetry.coloured_graph import ColouredGraph, GroupLoads, RankGroups
from simcluster.program.symmetry.equitable_partition import refine_colours
from simcluster.program.symmetry.rank_classes import pipeline_pairs

HOSTS_PER_LEAF = 32


def crossed(src, dst, ranks):
    """The links of each way from ``src`` to ``dst`` [sends, 6], -1 where there are fewer; kinds of links."""
    leaves = 8 * (ranks // 8 // HOSTS_PER_LEAF + 1)
    base = np.cumsum([0, ranks, ranks, ranks, ranks, leaves, leaves])
    found = np.full((len(src), 6), -1)
    found[:, 0], found[:, 1] = src, base[1] + dst
    away = src // 8 != dst // 8
    found[away, 2], found[away, 3] = base[2] + src[away], base[3] + dst[away]
    one, other = (each // 8 // HOSTS_PER_LEAF * 8 + each % 8 for each in (src, dst))
    far = away & (one != other)
    found[far, 4], found[far, 5] = base[4] + one[far], base[5] + other[far]
    return found, np.repeat(np.arange(6), np.diff(base))


def loads(members, ordered, ranks):
    """What each group sends around its ring, or from its first to its second, on the links it crosses."""
    there = members[:, 1:] if ordered else np.roll(members, -1, axis=1)
    here = members[:, : there.shape[1]]
    links, kinds = crossed(here.ravel(), there.ravel(), ranks)
    groups = np.repeat(np.arange(len(members)), here.shape[1])[:, np.newaxis]
    keys, times = np.unique((groups * len(kinds) + links)[links >= 0], return_counts=True)
    offsets = np.searchsorted(keys, np.arange(len(members) + 1) * len(kinds))
    return GroupLoads(offsets, keys % len(kinds), times << 16), kinds


def structure(replicas):
    mesh = Mesh.of({"pipeline": 16, "data": replicas, "tensor": 8})
    ranks = mesh.num_ranks
    found = []
    for axes in (("tensor",), ("data",), ("data", "tensor")):
        members = mesh.groups(axes)
        there, _ = loads(members, False, ranks)
        back, _ = loads(members[:, ::-1], False, ranks)
        found.append(RankGroups(members, np.zeros(len(members), dtype=np.int64), (there, back)))
    pairs = pipeline_pairs(mesh, "pipeline")
    forth, kinds = loads(pairs, True, ranks)
    back, _ = loads(pairs[:, ::-1], True, ranks)
    found.append(RankGroups(pairs, np.zeros(len(pairs), dtype=np.int64), (forth, back), ordered=True))
    return ColouredGraph(mesh.coordinates[:, 0], found, kinds)


@pytest.mark.parametrize("slow", [None, "device", "card"])
@pytest.mark.parametrize("replicas", [128, 1024])
def test_refined(benchmark, replicas, slow):
    whole = structure(replicas)
    ranks, links = whole.ranks.copy(), whole.links.copy()
    if slow == "device":
        ranks[5000] = 99
    if slow == "card":
        links[3 * len(ranks) + 5000] = 99
    found = benchmark(refine_colours, ColouredGraph(ranks, whole.meetings, links))
    benchmark.extra_info["classes"] = len(found.ranks)
    benchmark.extra_info["loads"] = sum(len(each.links) for meet in whole.meetings for each in meet.loads)
