"""Islands, pods and meshes: what two ranks and whole groups get on clusters with more than two levels."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.cluster import HostFabric, Link, Reach, Wiring, load_cluster
from simcluster.collectives import Operation, collective_time

GB = 10**9
PORT = 900 * GB * 0.802 * 0.945
"""What rings reach out of a GPU of a GB200 rack; a rank's own part takes half as long as over the port."""


def ring(cluster, ranks, num_bytes):
    return collective_time(Operation.ALL_REDUCE, cluster.placement(ranks), num_bytes, cluster, "ring")


def way(cluster, src, dst):
    """How far two ranks lie apart, and the bytes/s of the narrowest link between them."""
    found = cluster.topology.routes(np.array([src]), np.array([dst]))
    return Reach(found.reach[0]), cluster.topology.rates(found.links[found.links >= 0]).min()


def test_a_cube_mesh_drives_more_links_the_larger_the_group():
    host = load_cluster("dgx-1v").host
    one = 25 * GB * 0.9
    assert [host.island.fabric.rate(ranks) / one for ranks in (2, 3, 4)] == pytest.approx([1, 2, 4])
    assert [host.fabric.rate(ranks) / one for ranks in (2, 4, 6, 7, 8)] == pytest.approx([1, 2, 2, 4, 6])


def test_a_cube_mesh_reaches_the_ceiling_of_its_three_rings():
    cluster = load_cluster("dgx-1v")
    size = 2**34
    seconds = ring(cluster, range(8), size).transfer
    assert 2 * 7 / 8 * size / seconds == pytest.approx(135 * GB)
    assert ring(cluster, range(4), size).transfer == pytest.approx(2 * 3 / 4 * size / (90 * GB))


def test_a_partial_mesh_uses_the_nearest_smaller_size():
    fabric = HostFabric(Wiring.PARTIAL_MESH, Link(10.0, 1.0, 0.0), ((2, 1), (4, 3)))
    assert [fabric.rate(ranks) for ranks in (1, 2, 3, 4, 5)] == [10, 10, 10, 30, 30]


def test_groups_of_four_and_what_joins_them():
    cluster = load_cluster("atlas-800", hosts=2)
    (near, near_rate), (across, across_rate), (far, far_rate) = (
        way(cluster, *ends) for ends in ((0, 3), (3, 4), (0, 8))
    )
    assert (near, across, far) == (Reach.ISLAND, Reach.HOST, Reach.NETWORK)
    assert near_rate == pytest.approx(10 * GB, rel=0.01)
    assert across_rate == pytest.approx(0.85 * 31.5 * GB)
    assert far_rate == pytest.approx(10 * GB)
    size = 2**34
    # Four ranks: 12 links one way, 4 in each ring. Eight: a ring uses 3 of the 12 links of each group of
    # four, and crosses between the groups at ranks that no other ring crosses at.
    for ranks, rate in ((range(4), 12 / 4 * near_rate), (range(8), 12 / 3 * near_rate)):
        whole = 2 * (len(ranks) - 1) / len(ranks) * size
        assert whole / ring(cluster, ranks, size).transfer == pytest.approx(rate, rel=0.01)


def test_a_hop_between_islands_takes_longer_by_the_difference_of_the_latencies():
    cluster = load_cluster("atlas-800")
    (protocol,) = cluster.host.protocols_of("ring")
    for ranks, hop in ((range(4), 0.5e-6), (range(8), 1.0e-6)):
        steps = 2 * (len(ranks) - 1)
        assert ring(cluster, ranks, 0).latency == pytest.approx(protocol.base + steps * hop)


@pytest.mark.parametrize("ranks", [4, 8, 36, 72])
def test_a_ring_in_a_rack_is_a_ring_on_one_switch(ranks):
    """Every GPU has one port, whichever tray its neighbour is in."""
    cluster = load_cluster("gb200-nvl72", hosts=18)
    size = 2**36
    found = ring(cluster, range(ranks), size)
    steps = 2 * (ranks - 1)
    own = 0.5 / ranks * size / PORT
    assert found.transfer == pytest.approx(steps / ranks * size / PORT)
    assert found.latency == pytest.approx(13.4e-6 + steps * 5.01e-6 + own)


def test_one_gpu_of_each_tray_is_a_ring_too():
    cluster = load_cluster("gb200-nvl72", hosts=18)
    found = ring(cluster, range(0, 72, 4), 2**36)
    assert found.transfer == pytest.approx(2 * 17 / 18 * 2**36 / PORT)


def test_an_all_to_all_in_a_rack_is_bound_by_the_port():
    cluster = load_cluster("gb200-nvl72", hosts=18)
    size = 2**36
    found = collective_time(Operation.ALL_TO_ALL, cluster.placement(range(72)), size, cluster)
    rate = 900 * GB * 0.802 * 0.867
    own = 0.89 / 72 * size / rate
    assert found.transfer == pytest.approx(71 / 72 * size / rate)
    assert found.latency == pytest.approx(15.5e-6 + 71 * 0.29e-6 + own)


def test_racks_meet_over_the_network():
    """One card per GPU: each carries its share of what its rack sends, and that is what takes longest."""
    cluster = load_cluster("gb200-nvl72", hosts=36)
    size = 2**36
    found = ring(cluster, range(144), size)
    inside = (1 - 1 / 72) * 2 * 143 / 144 * size / PORT
    assert found.transfer == pytest.approx(inside)
    pairs = ring(cluster, [0, 72], size)
    assert pairs.transfer == pytest.approx(size / (50 * GB * 0.97))


def test_a_ring_through_super_pods_hops_between_servers_as_often_as_there_are_servers():
    cluster = load_cluster("cloudmatrix-384", hosts=96)
    found = ring(cluster, range(96 * 16), 0)
    near, pod, network = 0.5e-6, 2.1e-6, 7e-6
    hops = 2 * (2 * (768 - 48) * near + 2 * 47 * pod + 1 * network)
    assert found.latency == pytest.approx(10e-6 + hops)
    inside = ring(cluster, range(48 * 16), 0)
    assert inside.latency == pytest.approx(10e-6 + 2 * ((768 - 48) * near + 47 * pod))


def test_the_dies_of_a_package_are_closer():
    cluster = load_cluster("cloudmatrix-384", hosts=48)
    assert way(cluster, 0, 1)[1] == pytest.approx(224 * GB * 0.85)
    assert way(cluster, 1, 2)[1] == pytest.approx(196 * GB * 0.71)
    assert way(cluster, 0, 16)[0] is Reach.POD
    assert way(cluster, 0, 48 * 16 - 1)[1] == pytest.approx(196 * GB * 0.71)
