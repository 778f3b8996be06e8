from __future__ import annotations

import numpy as np
import pytest

from simcluster.cluster import ClusterSpec, Fabric, Level, Link, Path, Reach, Span, Wiring, load_cluster
from simcluster.document import validate_data


def test_ranks_devices_hosts_and_network_cards():
    cluster = load_cluster("dgx-h100", hosts=3)
    assert cluster.num_devices == 24
    assert cluster.device(23) is cluster.host.device
    assert cluster.hosts_of(np.array([0, 7, 8, 23])).tolist() == [0, 0, 1, 2]
    assert cluster.nics_of(np.array([[0, 7], [8, 23]])).tolist() == [[0, 7], [8, 23]]
    with pytest.raises(IndexError, match="rank 24 of a cluster with 24 devices"):
        cluster.device(24)


def test_devices_share_network_cards_where_there_are_fewer():
    spec = {"host": {"use": "dgx-h100", "network": {"nics": 4}}, "hosts": 2}
    cluster = validate_data(spec, ClusterSpec).build()
    assert cluster.nics_of(np.arange(16)).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]
    assert cluster.span(range(16)) == Span.even(2, 8, rails=4)


def test_more_cards_than_devices_are_bundled():
    spec = {"host": {"use": "dgx-h100", "network": {"nics": 32, "bandwidth": "100 Gbps"}}, "hosts": 2}
    network = validate_data(spec, ClusterSpec).build().host.network
    assert network.nics == 8
    assert network.link.bandwidth == 4 * 12.5e9


def test_a_path_inside_a_host_and_one_between_hosts():
    cluster = load_cluster("dgx-h100", hosts=2)
    assert cluster.path(0, 7) == Path(Reach.HOST, 1, 0.6e-6, pytest.approx(450e9 * 0.824))
    assert cluster.path(7, 8) == Path(Reach.NETWORK, 1, 2.7e-6, pytest.approx(50e9 * 0.97))
    ways, index = cluster.paths(np.array([0, 3, 8]), np.array([1, 9, 2]))
    assert [ways[i].reach for i in index] == [Reach.HOST, Reach.NETWORK, Reach.NETWORK]
    with pytest.raises(ValueError, match="no path from a rank to itself"):
        cluster.path(3, 3)


def test_a_switch_serves_every_group_alike_and_a_mesh_in_proportion_to_its_links():
    link = Link(100.0, 0.5, 0.0)
    assert [Fabric(Wiring.SWITCH, link).rate(n) for n in (1, 2, 8)] == [50, 50, 50]
    assert [Fabric(Wiring.FULL_MESH, link).rate(n) for n in (1, 2, 8)] == [50, 50, 350]


def test_an_uneven_group_on_a_mesh_is_as_wide_as_its_narrowest_host():
    cluster = load_cluster("atlas-800t-a2", hosts=2)
    link = cluster.host.fabric.link.rate
    assert cluster.rate(Level.HOST, cluster.span([0, 1, 2, 8, 9])) == pytest.approx(link)
    assert cluster.rate(Level.HOST, cluster.span([0, 1, 2, 8])) == pytest.approx(2 * link)
    assert cluster.rate(Level.HOST, cluster.span(range(8))) == pytest.approx(7 * link)
