"""The double binary tree: what makes it use every network card fully."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.collectives.algorithms.tree import ROOT, _busiest, _depth, _trees


@pytest.mark.parametrize("hosts", [*range(1, 70), 127, 128, 129, 1000])
def test_both_trees_reach_every_host_in_logarithmic_depth(hosts):
    for parents in _trees(hosts):
        assert parents.count(ROOT) == 1 and len(parents) == hosts
        for host in range(hosts):
            seen = set()
            while parents[host] != ROOT:
                assert host not in seen
                seen.add(host)
                host = parents[host]
    assert _depth(hosts) == int(np.ceil(np.log2(hosts)))


@pytest.mark.parametrize("hosts", range(2, 70))
def test_an_inner_host_of_one_tree_is_a_leaf_of_the_other(hosts):
    children = [
        np.bincount([parent for parent in parents if parent != ROOT], minlength=hosts)
        for parents in _trees(hosts)
    ]
    assert not np.any((children[0] > 1) & (children[1] > 1))
    assert max(children[0].max(), children[1].max()) <= 2
    assert _busiest(hosts) <= 2.5


@pytest.mark.parametrize(("hosts", "sends"), [(1, 0), (2, 1), (3, 1.5), (4, 2), (8, 2), (64, 2)])
def test_the_busiest_host(hosts, sends):
    assert _busiest(hosts) == sends
