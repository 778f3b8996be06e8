"""Networks that reduce: where messages meet, the ways there, and what a document may say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster import ClusterSpec, host_names, load_cluster
from simcluster.cluster.interconnect.in_network_reduction import Format
from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.work import DType
from tests.support.networks import EXAMPLES, REDUCES, SQUARE, TREES, cluster
from tests.support.routes import connected, names

BUILT = {kind: cluster(EXAMPLES[kind], 8).topology for kind in TREES}


def switches(topology) -> np.ndarray:
    """All nodes of the network."""
    return np.arange(topology.network.site.first_node, topology.num_nodes)


@pytest.mark.parametrize("kind", TREES)
@settings(max_examples=16)
@given(data=st.data())
def test_messages_meet_at_the_lowest_switch_over_all(kind, data):
    topology = BUILT[kind]
    ranks = np.array(data.draw(st.lists(st.integers(0, 63), min_size=1, max_size=6, unique=True)))
    (found,) = topology.meeting(ranks[np.newaxis])
    cards = ranks // 8 * 8 + ranks % 8
    over = [
        each
        for each in switches(topology)
        if topology.network.is_over(np.full(len(cards), each), cards).all()
    ]
    links = {each: int((topology.routes(ranks[:1], np.array([each])).links >= 0).sum()) for each in over}
    assert links[found] == min(links.values()) and list(links.values()).count(links[found]) == 1
    there = connected(topology, ranks, np.full(len(ranks), found))
    back = connected(topology, np.full(len(ranks), found), ranks)
    assert there.latency == pytest.approx(back.latency)


def test_the_ways_to_switches_of_all_tiers():
    topology = cluster(EXAMPLES["fat_tree"]).topology
    leaf, spine, core = (topology.node(name) for name in ("leaf.1", "spine.0", "core"))
    assert names(topology, 8, leaf)[1:] == ["host.1.nic.0.out"]
    assert names(topology, 8, spine)[1:] == ["host.1.nic.0.out", "leaf.1.up"]
    assert names(topology, 8, core)[1:] == ["host.1.nic.0.out", "leaf.1.up", "spine.0.up"]
    assert names(topology, leaf, 8)[:1] == ["host.1.nic.0.in"]
    assert names(topology, spine, 8)[:2] == ["leaf.1.down", "host.1.nic.0.in"]
    assert names(topology, core, 8)[:3] == ["spine.0.down", "leaf.1.down", "host.1.nic.0.in"]
    mixed = connected(topology, np.array([8, core, 0]), np.array([leaf, 8, 24]))
    assert [int((row >= 0).sum()) for row in mixed.links] == [2, 4, 8]
    assert mixed.reach.tolist() == [3, 3, 3]


@pytest.mark.parametrize("other", ["leaf.0", "spine.1"])
def test_no_way_leads_to_a_switch_that_is_not_over_a_device(other):
    topology = cluster(EXAMPLES["fat_tree"]).topology
    for ends in ((8, topology.node(other)), (topology.node(other), 8)):
        with pytest.raises(ValueError, match=f"routes do not lead to {other}"):
            topology.routes(*(np.array([end]) for end in ends))


def test_no_way_leads_to_switches_of_a_graph_or_a_hash():
    for network in (SQUARE, {"kind": "leaf_spine", "hosts_per_leaf": 2, "ecmp": "hash"}):
        topology = cluster(network).topology
        with pytest.raises(ValueError, match="routes do not lead to"):
            topology.routes(np.array([0]), switches(topology)[:1])


@pytest.mark.parametrize("kind", TREES)
def test_a_network_says_what_it_reduces(kind):
    assert cluster(EXAMPLES[kind]).topology.network.reduces is None
    found = cluster({**EXAMPLES[kind], "reduces": REDUCES | {"rate": "100 Gbps"}}).topology.network.reduces
    assert (found.operations, found.formats, found.rate) == (("all_reduce",), ("bf16", "fp32"), 12.5e9)
    assert not found.lacks("all_reduce", "bf16") and not found.lacks("all_reduce")
    assert found.lacks("all_reduce", "fp16") == "the network reduces bf16, fp32, not fp16"
    assert found.lacks("barrier") == "the network reduces for all_reduce, not for barrier"


def test_formats_are_those_of_numbers():
    assert {DType.of(label).label for label in Format.__args__} == set(Format.__args__)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (EXAMPLES["leaf_spine"] | {"ecmp": "hash", "reduces": REDUCES}, "needs one tree over all hosts"),
        (SQUARE | {"reduces": REDUCES}, "unknown key 'reduces'"),
        (EXAMPLES["switch"] | {"reduces": REDUCES | {"formats": ["bf61"]}}, "bf61"),
        (EXAMPLES["switch"] | {"reduces": REDUCES | {"formats": []}}, "formats"),
        (EXAMPLES["switch"] | {"reduces": REDUCES | {"operations": ["all_gather"]}}, "all_gather"),
        (EXAMPLES["switch"] | {"reduces": {"formats": ["bf16"]}}, "'operations' is missing"),
    ],
)
def test_what_no_network_reduces_is_refused(network, message):
    with pytest.raises(ScenarioError, match=message):
        cluster(network)


def test_groups_joined_with_others_do_not_reduce():
    joined = {"groups": [{"use": "dgx-h100-sharp", "hosts": 2}, {"use": "dgx-a100", "hosts": 1}]}
    with pytest.raises(ScenarioError, match="not supported among several groups yet"):
        validate_data(joined, ClusterSpec)
    alone = {"groups": joined["groups"][:1]}
    assert validate_data(alone, ClusterSpec).build().topology.network.reduces is not None


def test_only_what_says_so_reduces():
    reducing = {name for name in host_names() if load_cluster(name, 2).topology.network.reduces is not None}
    assert reducing == {"dgx-h100-sharp"}
