"""How long it takes to price a collective that nobody has asked for before.

pytest tests/benchmarks/bench_collectives.py
"""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.cluster import load_cluster
from simcluster.collectives import Operation, all_algorithms, collective_time, group_site_of

MIB = 2**20
KINDS = [kind for kind, each in all_algorithms().items() if Operation.ALL_REDUCE in each.operations]


@pytest.mark.parametrize("ranks", [4096, 65536])
@pytest.mark.parametrize("kind", KINDS)
def test_an_all_reduce_of_all_ranks(benchmark, kind, ranks):
    price(benchmark, Operation.ALL_REDUCE, kind, ranks)


@pytest.mark.parametrize("kind", ["direct", "hierarchical", "pairwise"])
def test_an_all_to_all_of_all_ranks(benchmark, kind):
    price(benchmark, Operation.ALL_TO_ALL, kind, 4096)


def price(benchmark, operation, kind, ranks):
    """Every round on a cluster of its own, so that nothing is remembered."""

    def setup():
        cluster = load_cluster("dgx-h100", ranks // 8)
        placement = cluster.placement(np.arange(ranks))
        if not all_algorithms()[kind].supports(operation, group_site_of(placement, cluster)):
            pytest.skip(f"no {kind} here")
        return (operation, placement, 64 * MIB, cluster, kind), {}

    assert benchmark.pedantic(collective_time, setup=setup, rounds=3).seconds > 0
