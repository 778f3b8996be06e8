from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import rustworkx
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster.spec.network_choice import network_kinds
from simcluster.errors import ScenarioError
from tests.support.networks import EXAMPLES, SQUARE, cluster
from tests.support.routes import connected, names


def test_every_kind_has_an_example_here():
    assert EXAMPLES.keys() == network_kinds().keys()


def test_a_leaf_and_what_is_over_it():
    topology = cluster({"kind": "leaf_spine", "hosts_per_leaf": 2, "oversubscription": 2}).topology
    assert names(topology, 0, 8)[1:3] == ["host.0.nic.0.out", "host.1.nic.0.in"]
    assert names(topology, 0, 17)[1:5] == ["host.0.nic.0.out", "leaf.0.up", "leaf.1.down", "host.2.nic.1.in"]
    assert topology.rates(topology.matching("leaf.?.up")) == pytest.approx([2 * 8 * 48.5e9 / 2] * 2)
    found = topology.routes(np.array([0]), np.array([16]))
    assert found.latency == pytest.approx([2.7e-6 + 2 * 0.2e-6])


def test_three_tiers():
    topology = cluster(EXAMPLES["fat_tree"]).topology
    assert names(topology, 0, 8)[2:4] == ["leaf.0.up", "leaf.1.down"]
    assert names(topology, 0, 16)[2:6] == ["leaf.0.up", "spine.0.up", "spine.1.down", "leaf.2.down"]
    assert topology.rates(topology.matching("spine.*.up")) == pytest.approx([2 * 8 * 48.5e9 / 2] * 2)


def test_rails():
    both = {
        way: cluster({"kind": "rail_optimised", "hosts_per_unit": 2, "cross_rail": way}, 4).topology
        for way in ("inner", "spine")
    }
    for topology in both.values():
        assert names(topology, 1, 9)[1:3] == ["host.0.nic.1.out", "host.1.nic.1.in"]
        assert names(topology, 1, 17)[2:4] == ["unit.0.rail.1.up", "unit.1.rail.1.down"]
    assert names(both["inner"], 1, 10)[:4] == [
        "host.0.device.1.nvlink.out",
        "host.0.device.2.nvlink.in",
        "host.0.device.2.pcie.out",
        "host.0.nic.2.out",
    ]
    assert names(both["spine"], 1, 10)[1:5] == [
        "host.0.nic.1.out",
        "unit.0.rail.1.up",
        "unit.0.rail.2.down",
        "host.1.nic.2.in",
    ]


def test_a_hash_takes_one_cable_and_the_same_one_each_time():
    network = {"kind": "leaf_spine", "hosts_per_leaf": 2, "oversubscription": 2, "ecmp": "hash"}
    topology = cluster(network, 8).topology
    cables = topology.matching("leaf.0.up.*")
    assert cables.size == 8 and topology.rates(cables) == pytest.approx([48.5e9] * 8)
    src, dst = np.repeat(np.arange(16), 48), np.tile(np.arange(16, 64), 16)
    used = np.bincount(topology.routes(src, dst).links[:, 2], minlength=topology.num_links)[cables]
    assert used.min() > 50 and used.max() > used.min(), "each of 8 cables carries some of 768 messages"
    again = topology.routes(src, dst).links
    assert np.array_equal(again, topology.routes(src, dst).links)


def test_equal_ways_of_a_graph_take_turns():
    topology = cluster(SQUARE).topology
    src, dst = np.repeat(np.arange(16), 16), np.tile(np.arange(16, 32), 16)
    second = topology.routes(src, dst).links[:, 2]
    assert Counter(topology.name(link) for link in second.tolist()) == {"a.b": 128, "a.c": 128}
    assert topology.rates(topology.matching("b.d")) == pytest.approx([200e9])
    hashed = cluster({**SQUARE, "ecmp": "hash"}).topology
    assert hashed.matching("b.d.*").size == 2
    third = hashed.routes(src, dst).links[:, 3]
    assert {hashed.name(link) for link in third.tolist()} == {"b.d.0", "b.d.1", "c.d"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"attach": [{"hosts": [0, 1], "switch": "a"}]}, "card 0 of host 2 is on no switch"),
        ({"attach": [{"hosts": "all", "switch": "a"}, {"hosts": 3, "switch": "d"}]}, "on a switch already"),
        ({"attach": [{"hosts": 7, "switch": "a"}]}, "there is no host 7; the last of 4 is 3"),
        ({"links": SQUARE["links"][:2]}, "no links lead from 'a' to 'd'"),
        ({"switches": ["a", "b", "c", "dd"]}, "unknown switch 'd'"),
        ({"switches": ["a", "b", "c", "d", "a"]}, "'a' is listed twice"),
        ({"links": [SQUARE["links"][0], SQUARE["links"][0]]}, "written above; use count"),
    ],
)
def test_a_graph_that_is_not_whole_is_refused(change, words):
    with pytest.raises(ScenarioError, match=words):
        cluster({**SQUARE, **change})


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ({"kind": "torus"}, "kind"),
        ({"kind": "leaf_spine"}, "hosts_per_leaf"),
        ({"kind": "leaf_spine", "hosts_per_leaf": 2, "oversubscription": 0.5}, "oversubscription"),
        ({"kind": "switch", "hosts_per_leaf": 2}, "hosts_per_leaf"),
        (
            {"kind": "leaf_spine", "hosts_per_leaf": 2, "oversubscription": 3, "ecmp": "hash"},
            "whole cables: 16 cards of a leaf over 3 are 5.33",
        ),
        (
            {"kind": "rail_optimised", "hosts_per_unit": 2, "core_oversubscription": 2},
            "there are cores only with 'units_per_block'",
        ),
    ],
)
def test_a_fabric_that_is_wrongly_written_is_refused(network, words):
    with pytest.raises(ScenarioError, match=words):
        cluster(network)


fabrics = st.one_of(
    st.fixed_dictionaries(
        {
            "kind": st.just("leaf_spine"),
            "hosts_per_leaf": st.integers(1, 4),
            "oversubscription": st.sampled_from([1, 2]),
            "ecmp": st.sampled_from(["ideal", "hash"]),
        }
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("fat_tree"),
            "hosts_per_leaf": st.integers(1, 3),
            "leaves_per_block": st.integers(1, 3),
            "oversubscription": st.sampled_from([[1, 1], [2, 1]]),
            "ecmp": st.sampled_from(["ideal", "hash"]),
        }
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("rail_optimised"),
            "hosts_per_unit": st.integers(1, 4),
            "units_per_block": st.integers(1, 2),
            "cross_rail": st.sampled_from(["inner", "spine"]),
            "ecmp": st.sampled_from(["ideal", "hash"]),
        }
    ),
    st.just({"kind": "switch"}),
)


@given(
    network=fabrics, hosts=st.integers(1, 9), host=st.sampled_from(["dgx-1v", "gb200-nvl72"]), data=st.data()
)
@settings(max_examples=25)
def test_routes_over_the_network_are_shortest_and_links_lead_both_ways(network, hosts, host, data):
    built = cluster(network, hosts, host)
    topology = built.topology
    every = np.arange(topology.num_links)
    tails, heads = topology.ends(every)
    rates = np.round(topology.rates(every)).astype(np.int64)
    # Disks write slower than they read, and the work of cores leads nowhere.
    own = [topology.matching(f"host.*.{what}.*") for what in ("disks", "work")]
    both = ~np.isin(every, np.concatenate(own))
    there = Counter(zip(tails[both].tolist(), heads[both].tolist(), rates[both].tolist(), strict=True))
    back = Counter(zip(heads[both].tolist(), tails[both].tolist(), rates[both].tolist(), strict=True))
    assert there == back, "as much comes back as goes there"
    rank = st.integers(0, built.num_devices - 1)
    pairs = np.array(data.draw(st.lists(st.tuples(rank, rank), min_size=1, max_size=20)))
    found = connected(topology, pairs[:, 0], pairs[:, 1])
    graph = rustworkx.PyDiGraph()
    graph.add_nodes_from(list(range(topology.num_nodes)))
    outer = [i for i in every.tolist() if not topology.name(i).startswith("host.")]
    graph.add_edges_from_no_data([(int(tails[i]), int(heads[i])) for i in outer])
    lengths = rustworkx.distance_matrix(graph)
    for row in found.links.tolist():
        links = [link for link in row if link >= 0]
        cards = [place for place, link in enumerate(links) if ".nic." in topology.name(link)]
        if len(cards) == 2:
            out, into = cards
            start, end = int(heads[links[out]]), int(tails[links[into]])
            assert into - out - 1 == lengths[start, end]


@pytest.mark.parametrize("kind", ["leaf_spine", "fat_tree", "rail_optimised"])
def test_a_cluster_of_131_072_devices(kind):
    large = {"leaf_spine": {"hosts_per_leaf": 16}, "fat_tree": {"hosts_per_leaf": 16, "leaves_per_block": 32},
             "rail_optimised": {"hosts_per_unit": 32, "units_per_block": 16}}[kind]  # fmt: skip
    topology = cluster({"kind": kind, **large}, hosts=16384).topology
    pairs = np.array([[0, 131071], [77_777, 4], [131071, 131070], [12, 65_536 + 12]])
    found = connected(topology, pairs[:, 0], pairs[:, 1])
    assert found.reach.tolist() == [3, 3, 1, 3]
    up = topology.matching("leaf.*.up" if kind != "rail_optimised" else "unit.*.up")
    assert topology.rates(up).sum() == pytest.approx(131072 * 48.5e9), "nothing is oversubscribed"
    assert topology.matching("host.16383.nic.7.*").size == 2


def test_placements_tell_apart_what_lies_on_other_leaves():
    network = {"kind": "rail_optimised", "hosts_per_unit": 2}
    found, index = cluster(network, 8).placements(np.array([[0, 8], [16, 24], [8, 16], [0, 24], [40, 48]]))
    assert len(found) == 2
    assert index.tolist() in ([0, 0, 1, 1, 1], [1, 1, 0, 0, 0])
    found, _ = cluster({**network, "ecmp": "hash"}, 8).placements(np.array([[0, 8], [16, 24]]))
    assert len(found) == 2, "a hash may treat them differently"
    found, _ = cluster({**network, "ecmp": "hash"}, 8).placements(np.array([[0, 1], [16, 17]]))
    assert len(found) == 1, "but not where nothing leaves the host"


@pytest.mark.parametrize("kind", ["switch", "leaf_spine", "fat_tree", "rail_optimised"])
def test_devices_reach_the_root_and_the_root_them(kind):
    topology = cluster(EXAMPLES[kind]).topology
    ranks, root = np.arange(32), np.full(32, topology.network.root)
    up, down = connected(topology, ranks, root), connected(topology, root, ranks)
    assert up.latency == pytest.approx(down.latency)
    tiers = {"switch": 0, "leaf_spine": 1}.get(kind, 2)
    assert (up.links >= 0).sum(axis=1).tolist() == [2 + tiers] * 32
    assert topology.rates(up.links).min() == pytest.approx(topology.rates(down.links).min())
    mixed = connected(topology, np.array([0, root[0], 5]), np.array([root[0], 9, 31]), np.array([3, 3, 3]))
    assert mixed.reach.tolist() == [3, 3, 3]


def test_a_written_graph_and_a_hash_have_no_root():
    assert cluster(SQUARE).topology.network.root == -1
    hashed = {"kind": "leaf_spine", "hosts_per_leaf": 2, "ecmp": "hash"}
    assert cluster(hashed).topology.network.root == -1
