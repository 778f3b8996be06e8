"""The double binary tree: what makes it use every network card fully."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.collectives.patterns.trees import ROOT, double_tree, tree_depth


def busiest(hosts: int) -> float:
    """How often the busiest host sends the data: to its parents and its children, half of it per tree."""
    sends = np.zeros(hosts)
    for parents in double_tree(hosts):
        for host, parent in enumerate(parents):
            if parent != ROOT:
                sends[[host, parent]] += 1
    return sends.max() / 2


@pytest.mark.parametrize("hosts", [*range(1, 70), 127, 128, 129, 1000])
def test_both_trees_reach_every_host_in_logarithmic_depth(hosts):
    for parents in double_tree(hosts):
        assert parents.count(ROOT) == 1 and len(parents) == hosts
        for host in range(hosts):
            seen = set()
            while parents[host] != ROOT:
                assert host not in seen
                seen.add(host)
                host = parents[host]
    assert tree_depth(double_tree(hosts)) == int(np.ceil(np.log2(hosts)))


@pytest.mark.parametrize("hosts", range(2, 70))
def test_an_inner_host_of_one_tree_is_a_leaf_of_the_other(hosts):
    children = [
        np.bincount([parent for parent in parents if parent != ROOT], minlength=hosts)
        for parents in double_tree(hosts)
    ]
    assert not np.any((children[0] > 1) & (children[1] > 1))
    assert max(children[0].max(), children[1].max()) <= 2
    assert busiest(hosts) <= 2.5


@pytest.mark.parametrize(("hosts", "sends"), [(1, 0), (2, 1), (3, 1.5), (4, 2), (8, 2), (64, 2)])
def test_thebusiest_host(hosts, sends):
    assert busiest(hosts) == sends
