from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster import ClusterSpec, Reach, host_names, load_cluster
from simcluster.document import validate_data
from simcluster.document.pattern import matches
from simcluster.errors import ScenarioError
from tests.support.routes import connected, names


def test_links_of_a_host_behind_a_switch_are_ports():
    topology = load_cluster("dgx-h100", hosts=2).topology
    assert names(topology, 0, 5) == ["host.0.device.0.nvlink.out", "host.0.device.5.nvlink.in"]
    assert names(topology, 1, 9) == [
        "host.0.device.1.pcie.out",
        "host.0.nic.1.out",
        "host.1.nic.1.in",
        "host.1.device.1.pcie.in",
    ]
    found = topology.routes(np.array([3, 3]), np.array([3, 11]))
    assert found.links[0].tolist() == [-1] * 4
    assert found.latency.tolist() == [0, pytest.approx(2.7e-6)]


def test_a_message_leaves_and_arrives_by_the_rail_it_is_told():
    topology = load_cluster("dgx-h100", hosts=2).topology
    found = topology.routes(np.array([0]), np.array([8]), np.array([6]))
    assert [topology.name(link) for link in found.links[0]] == [
        "host.0.device.0.nvlink.out",
        "host.0.device.6.nvlink.in",
        "host.0.device.6.pcie.out",
        "host.0.nic.6.out",
        "host.1.nic.6.in",
        "host.1.device.6.pcie.in",
        "host.1.device.6.nvlink.out",
        "host.1.device.0.nvlink.in",
    ]


def test_the_cube_mesh_goes_on_through_one_gpu_where_no_link_joins_two():
    topology = load_cluster("dgx-1v").topology
    widths = {(0, 3): 2, (0, 1): 1, (4, 7): 2, (2, 6): 1}
    for (src, dst), width in widths.items():
        link = topology.routes(np.array([src]), np.array([dst])).links[0]
        assert topology.rates(link[:1]) == pytest.approx([width * 22.5e9])
    pairs = [(src, dst) for src in range(8) for dst in range(8) if src != dst]
    found = topology.routes(*np.array(pairs).T)
    hops = (found.links >= 0).sum(axis=1)
    assert (hops == 1).sum() == 32 and (hops == 2).sum() == 24
    used = np.bincount(found.links[found.links >= 0], minlength=topology.num_links)
    nvlinks = topology.matching("host.0.nvlink.*")
    crossings = used[nvlinks] / (topology.rates(nvlinks) / 22.5e9)
    assert crossings.max() <= 3, "80 crossings of 48 links: ways of equal length spread over the mesh"


def test_two_groups_of_four_meet_over_the_host():
    topology = load_cluster("atlas-800").topology
    assert names(topology, 4, 7) == ["host.0.hccs.4-7"]
    assert names(topology, 3, 4) == [
        "host.0.device.3.pcie.out",
        "host.0.pcie.3.peer.out",
        "host.0.pcie.4.peer.in",
        "host.0.device.4.pcie.in",
    ]


def test_cards_of_one_socket_share_the_link_to_the_other():
    topology = load_cluster("a100-pcie-8").topology
    across = [names(topology, src, src + 4) for src in range(4)]
    assert {way[2] for way in across} == {"host.0.sockets_peer.0-1"}
    assert names(topology, 7, 6)[1:3] == ["host.0.pcie.7.peer.out", "host.0.pcie.6.peer.in"]


def test_a_rack_is_one_switch_and_a_super_pod_has_two_levels():
    rack = load_cluster("gb200-nvl72", hosts=36).topology
    assert names(rack, 0, 71) == ["host.0.device.0.nvlink.out", "host.17.device.3.nvlink.in"]
    assert names(rack, 0, 72)[1:3] == ["host.0.nic.0.out", "host.18.nic.0.in"]
    assert rack.switch_of(np.array([0, 71, 72])).tolist() == [rack.node("pod.0.switch")] * 2 + [
        rack.node("pod.1.switch")
    ]
    pod = load_cluster("cloudmatrix-384", hosts=48).topology
    assert names(pod, 0, 767) == [
        "host.0.device.0.ub.out",
        "host.0.pod.out",
        "host.47.pod.in",
        "host.47.device.15.ub.in",
    ]
    trunk = pod.rates(pod.matching("host.0.pod.*"))
    assert trunk == pytest.approx([16 * 196e9 * 0.71] * 2)
    assert pod.switch_of(np.array([0])).tolist() == [-1]


def test_switches_that_add_up_are_nodes_that_routes_lead_to():
    topology = load_cluster("dgx-h100", hosts=3).topology
    switch = topology.switch_of(np.array([9]))
    assert topology.node_name(int(switch[0])) == "host.1.switch"
    there = topology.routes(np.array([9]), switch)
    back = topology.routes(switch, np.array([15]))
    assert [topology.name(link) for link in there.links[0]] == ["host.1.device.1.nvlink.out"]
    assert [topology.name(link) for link in back.links[0]] == ["host.1.device.7.nvlink.in"]
    assert there.reach.tolist() == [Reach.HOST]


def test_memory_is_reached_over_the_tree():
    topology = load_cluster("dgx-a100", hosts=2).topology
    memory = topology.node("host.1.memory.3")
    found = topology.routes(np.array([8, 12]), np.array([memory, memory]))
    own, other = ([topology.name(link) for link in row if link >= 0] for row in found.links)
    assert own == ["host.1.device.0.pcie.out", "host.1.pcie.0.out", "host.1.memory.3.in"]
    assert "host.1.sockets.1-0" in other
    assert found.latency == pytest.approx([2e-6, 2e-6])


@pytest.mark.parametrize("host", ["dgx-1v", "gb200-nvl72", "a100-pcie-8", "cpu-server"])
def test_patterns_choose_the_names_that_operator_patterns_would(host):
    topology = load_cluster(host, hosts=12).topology
    every = [topology.name(link) for link in range(topology.num_links)]
    assert len(set(every)) == len(every)
    for pattern in (
        "*", "host.1.*", "host.?.nic.*", "*.out", "*.{in,out}", "host.1*.device.{0,1}.*.in", "nothing",
        "*1*1*", "host.11.device.0.pcie.out", "host.{2,3}.{nic,nvlink}*", "{host.1.nic.*,*.0.*in}",
    ):  # fmt: skip
        wanted = [link for link, name in enumerate(every) if matches(pattern, name)]
        assert topology.matching(pattern).tolist() == wanted, pattern


def test_names_of_nodes_and_links_that_are_not_there():
    topology = load_cluster("dgx-h100").topology
    with pytest.raises(IndexError):
        topology.name(topology.num_links)
    with pytest.raises(KeyError):
        topology.node("host.1.switch")


@given(data=st.data())
@settings(max_examples=40)
def test_every_route_is_a_chain_from_its_source_to_its_destination(data):
    cluster = load_cluster(data.draw(st.sampled_from(host_names())), data.draw(st.integers(1, 40)))
    rank = st.integers(0, cluster.num_devices - 1)
    pairs = np.array(data.draw(st.lists(st.tuples(rank, rank), min_size=1, max_size=30)))
    rails = None
    if data.draw(st.booleans()):
        card = st.integers(0, cluster.host.network.nics - 1)
        rails = np.array(data.draw(st.lists(card, min_size=len(pairs), max_size=len(pairs))))
    connected(cluster.topology, pairs[:, 0], pairs[:, 1], rails)


def test_disks_cores_and_shared_storage_are_places_that_routes_lead_to():
    storage = {"read": "100 GB/s", "write": "50 GB/s", "host": "20 GB/s", "latency": "100 us"}
    spec = {"use": "dgx-h100", "hosts": 3, "storage": storage}
    topology = validate_data(spec, ClusterSpec).build().topology
    store, disks = topology.node("storage"), topology.node("host.1.disks")
    assert names(topology, 9, store)[-2:] == ["host.1.storage.out", "storage.in"]
    assert names(topology, store, 17)[:2] == ["storage.out", "host.2.storage.in"]
    assert names(topology, 12, disks)[-2:] == ["host.1.sockets.1-0", "host.1.disks.in"]
    connected(topology, np.array([9, store, 12, disks]), np.array([store, 17, disks, 8]))
    assert topology.rates(topology.matching("storage.*")).tolist() == [50e9, 100e9]
    assert topology.rates(topology.matching("host.0.cores.1.in")) == pytest.approx([307.2e9])
    assert load_cluster("dgx-h100").topology.matching("*storage*").size == 0


def host(**changes) -> dict:
    return {"host": {"use": "dgx-1v", **changes}, "hosts": 2}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (host(fabric={"pairs": [[0, 1, 1]]}), "joins 2 devices of 8"),
        (host(fabric={"pairs": [[0, 0, 1]]}), "0 and 0 are one device"),
        (host(fabric={"pairs": [[0, 1, 1], [1, 0, 2]]}), "1 and 0 are joined twice"),
        (
            host(fabric={"pairs": [[0, 1, 1], [1, 2, 1], [2, 3, 1], [4, 5, 1], [5, 6, 1], [6, 7, 1]]}),
            "no links lead from device 0 to device 4",
        ),
        (host(fabric={"reduces": True}), "only a switch adds up"),
        (host(fabric={"over_pcie": True}), "only a switch is reached over PCIe"),
        (
            host(island=None, fabric={"wiring": "trunk", "pairs": None, "links": None}),
            "a trunk joins islands",
        ),
        (host(processors={"numa_nodes": 3}), "3 parts do not spread evenly over 2 sockets"),
        (host(processors={"numa_of_device": [0, 0, 0, 0, 1, 1, 1, 2]}), "there is no part 2 of 2"),
    ],
)
def test_wiring_that_does_not_fit_the_host_is_refused(spec, words):
    with pytest.raises(ScenarioError, match=words):
        validate_data(spec, ClusterSpec)


def test_a_mesh_in_a_pod_has_ports_of_its_own_to_the_others():
    pod = {"hosts": 2, "bandwidth": "50 GB/s", "efficiency": 0.5, "latency": "2 us"}
    topology = validate_data(host(pod=pod), ClusterSpec).build().topology
    assert names(topology, 3, 12) == ["host.0.device.3.pod.out", "host.1.device.4.pod.in"]
    found = connected(topology, np.array([3]), np.array([12]))
    assert found.latency == pytest.approx([2e-6]) and found.reach.tolist() == [Reach.POD]
    assert topology.rates(found.links) == pytest.approx(25e9)
