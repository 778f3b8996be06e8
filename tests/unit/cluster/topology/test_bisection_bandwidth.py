from __future__ import annotations

import pytest

from simcluster.cluster import load_cluster
from simcluster.cluster.topology.bisection_bandwidth import bisection_rate
from tests.support.networks import EXAMPLES, cluster

CARD = 48.5e9


@pytest.mark.parametrize(
    ("host", "hosts", "rate"),
    [
        ("dgx-h100", 1, 4 * 450e9 * 0.824),  # the ports of half of the devices
        ("dgx-1v", 1, 6 * 22.5e9),  # the links between the quads: 2 + 2 + 1 + 1
        ("atlas-800t-a2", 1, 16 * 28e9 * 0.8),  # a full mesh: 4 x 4 pairs
        ("a100-pcie-8", 1, 15.75e9),  # what joins the sockets
        ("gb200-nvl72", 18, 36 * 18 * 40.1e9),  # one rack
        ("gb200-nvl72", 36, 72 * CARD),  # two racks
        ("dgx-h100", 64, 256 * CARD),
        ("dgx-h100", 1024, 4096 * CARD),
        ("cpu-server", 1, 22e9),
    ],
)
def test_the_first_half_to_the_second(host, hosts, rate):
    assert bisection_rate(load_cluster(host, hosts).topology) == pytest.approx(rate, rel=1e-3)


def test_a_host_across_the_middle_sends_inside_and_out():
    inner, out = 4 * 450e9 * 0.824, 8 * CARD + 4 * CARD
    assert bisection_rate(load_cluster("dgx-h100", 3).topology) == pytest.approx(inner + out, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "rate"),
    [
        ("switch", 16 * CARD),
        ("leaf_spine", 8 * CARD),  # oversubscribed by 2
        ("fat_tree", 8 * CARD),  # by 2 at the spines
        ("rail_optimised", 16 * CARD),
        ("custom", 200e9),  # the two cables out of a
    ],
)
def test_networks(kind, rate):
    assert bisection_rate(cluster(EXAMPLES[kind]).topology) == pytest.approx(rate, rel=1e-3)


def test_cables_one_by_one_carry_what_the_trunk_does():
    network = {"kind": "leaf_spine", "hosts_per_leaf": 2, "oversubscription": 2}
    hashed = cluster({**network, "ecmp": "hash"}, 8).topology
    assert bisection_rate(hashed) == pytest.approx(bisection_rate(cluster(network, 8).topology))
