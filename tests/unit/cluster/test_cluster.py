from __future__ import annotations

import numpy as np
import pytest

from simcluster.cluster import ClusterSpec, DeviceSpeed, HostFabric, Level, Link, Wiring, load_cluster
from simcluster.collectives import Operation, collective_time
from simcluster.document import validate_data


def test_ranks_devices_hosts_and_network_cards():
    cluster = load_cluster("dgx-h100", hosts=3)
    assert cluster.num_devices == 24
    assert cluster.device(23) is cluster.host.device
    assert cluster.hosts_of(np.array([0, 7, 8, 23])).tolist() == [0, 0, 1, 2]
    with pytest.raises(IndexError, match="rank 24 of a cluster with 24 devices"):
        cluster.device(24)


def test_devices_share_network_cards_where_there_are_fewer():
    spec = {"host": {"use": "dgx-h100", "network": {"nics": 4}}, "hosts": 2}
    cluster = validate_data(spec, ClusterSpec).build()
    found = cluster.placement(range(16))
    assert found.rail_of.tolist() == [0, 0, 1, 1, 2, 2, 3, 3] * 2
    assert (found.num_hosts, found.ranks_per_host, found.fewest_per_host, found.rails) == (2, 8, 8, 4)


def test_more_cards_than_devices_are_bundled():
    spec = {"host": {"use": "dgx-h100", "network": {"nics": 32, "bandwidth": "100 Gbps"}}, "hosts": 2}
    network = validate_data(spec, ClusterSpec).build().host.network
    assert network.nics == 8
    assert network.link.bandwidth == 4 * 12.5e9


def test_a_switch_serves_every_group_alike_and_a_mesh_in_proportion_to_its_links():
    link = Link(100.0, 0.5, 0.0)
    assert [HostFabric(Wiring.SWITCH, link).rate(n) for n in (1, 2, 8)] == [50, 50, 50]
    assert [HostFabric(Wiring.FULL_MESH, link).rate(n) for n in (1, 2, 8)] == [50, 50, 350]


def test_a_ring_on_a_mesh_uses_a_link_to_each_of_its_mates():
    cluster = load_cluster("atlas-800t-a2", hosts=2)
    link = cluster.host.fabric.link.rate
    size = 2**34
    rates = {}
    for ranks in ([0, 1], [0, 1, 2], range(8)):
        (protocol,) = cluster.host.protocols_of("ring")
        found = collective_time(Operation.ALL_GATHER, cluster.placement(ranks), size, cluster, "ring")
        count = len(ranks)
        rates[count] = (count - 1) / count * size / found.transfer / protocol.shares[Level.HOST]
    assert rates == pytest.approx({2: link, 3: 2 * link, 8: 7 * link})


def test_other_speeds_leave_the_links_as_they_are():
    cluster = load_cluster("dgx-h100", hosts=2)
    slower = cluster.with_speeds({3: DeviceSpeed(compute=0.5)}).with_speeds({4: DeviceSpeed(compute=0.8)})
    assert slower.same_links is cluster.same_links is cluster
    assert slower.topology is cluster.topology
    assert (slower.speed(3).compute, slower.speed(4).compute) == (1.0, 0.8)
