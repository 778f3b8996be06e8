"""Clusters of several groups of hosts: who sits where, what joins them, and what collectives cost."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster import Cluster, ClusterSpec, Reach, load_cluster
from simcluster.cluster.topology.bisection_bandwidth import bisection_rate
from simcluster.cluster.topology.multi_group import JoinedTopology
from simcluster.collectives import Operation, collective_time
from simcluster.document import Document, validate, validate_data
from simcluster.errors import ScenarioError
from tests.support.routes import connected, names

HOSTS = ["dgx-h100", "atlas-800t-a2", "cpu-server", "dgx-1v", "gb200-nvl72", "atlas-800"]


def mixed(*groups: tuple[str, int], **more) -> Cluster:
    written = [{"use": use, "hosts": hosts} for use, hosts in groups]
    return validate_data({"groups": written, **more}, ClusterSpec).build()


THREE = (("dgx-h100", 2), ("atlas-800t-a2", 1), ("cpu-server", 2))


def test_ranks_are_numbered_group_by_group():
    cluster = mixed(*THREE)
    assert (cluster.num_devices, cluster.num_hosts, cluster.mixed) == (28, 5, True)
    ranks = np.array([0, 8, 15, 16, 23, 24, 25, 26, 27])
    assert cluster.group_of(ranks).tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2]
    assert cluster.hosts_of(ranks).tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert cluster.placement(ranks).rail_of.tolist() == [0, 0, 7, 0, 7, 0, 0, 0, 0]
    assert [cluster.device(rank).name for rank in (15, 16, 24)] == [
        "h100-sxm",
        "ascend-910b-313t",
        "xeon-8480",
    ]
    assert cluster.device(16) is cluster.device(23)
    with pytest.raises(ValueError, match="several groups"):
        _ = cluster.host


def test_one_group_is_the_plain_cluster():
    written = validate_data({"groups": [{"use": "dgx-h100", "hosts": 3}]}, ClusterSpec).build()
    plain = load_cluster("dgx-h100", hosts=3)
    assert not written.mixed
    assert (written.num_devices, written.assumptions) == (plain.num_devices, plain.assumptions)
    assert type(written.topology) is type(plain.topology)


def test_changes_count_devices_and_hosts_over_all_groups():
    changes = [{"host": 3, "compute": 0.5}, {"device": 16, "memory_bandwidth": 0.8}]
    cluster = mixed(*THREE, changes=changes)
    slow = {rank for rank in range(28) if cluster.speed(rank).compute == 0.5}
    assert slow == {24, 25}
    assert cluster.speed(16).memory_bandwidth == 0.8
    assert cluster.device(24).name == "xeon-8480"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "use: dgx-h100\nhosts: 2\ngroups: [{use: cpu-server, hosts: 1}]",
            "'groups' names the hosts already; leave 'use'",
        ),
        ("hosts: 2\ngroups: [{use: cpu-server, hosts: 1}]", "leave 'hosts' out or write it as a group"),
        ("groups: [{use: cpu-server}]", "'hosts' is missing"),
        ("groups: [{hosts: 2}]", "name a host with 'use: dgx-h100'"),
        ("groups: [{use: cpu-serve, hosts: 2}]", "unknown host 'cpu-serve'; did you mean 'cpu-server'?"),
        ("groups: [{use: cpu-server, hosts: 2}]\nnetwork: {kind: switch}", "write it in the groups"),
        (
            "groups: [{use: cpu-server, hosts: 2, network: {kind: leaf_spine, hosts_per_leaf: 1, ecmp: hash}"
            "}, {use: dgx-h100, hosts: 1}]",
            "without a single root cannot be joined",
        ),
        (
            "groups: [{use: cpu-server, hosts: 2}, {use: dgx-h100, hosts: 1}]\n"
            "changes: [{device: 12, compute: 0.5}]",
            "there is no device 12; the last of 12 is 11",
        ),
    ],
)
def test_what_is_said_twice_or_too_little(text, message):
    with pytest.raises(ScenarioError) as caught:
        validate(Document.parse(text, "x.yaml"), ClusterSpec)
    assert message in str(caught.value)


# -- topology -------------------------------------------------------------------------------------------


def test_the_way_between_groups_leads_over_the_cards_of_both_and_the_core():
    cluster = mixed(*THREE)
    assert names(cluster.topology, 1, 16) == [
        "host.0.device.1.pcie.out",
        "host.0.nic.1.out",
        "group.0.unit.0.rail.1.up",
        "group.0.trunk.up",
        "group.1.trunk.down",
        "host.2.nic.0.in",
    ]
    assert names(cluster.topology, 16, 17) == ["host.2.hccs.0-1"]
    found = cluster.topology.routes(np.array([1, 8]), np.array([16, 0]))
    rates = cluster.topology.rates(found.links[0])
    assert rates.min() == cluster.groups[1].host.network.link.rate, "the slower of both cards"
    assert found.reach.tolist() == [Reach.NETWORK, Reach.NETWORK]


def test_the_way_between_groups_adds_no_latency():
    """Two groups of a kind take the time of one."""
    cluster = mixed(*THREE)
    added = {ranks: cluster.topology.added_latency(np.array(ranks)) for ranks in [(0, 8), (0, 16), (16, 24)]}
    assert added == dict.fromkeys(added, 0.0)
    (links,) = cluster.topology.routes(np.array([0]), np.array([16])).links
    names_of = [cluster.topology.name(link) for link in links.tolist()]
    assert cluster.topology.are_network_links(links).tolist() == ["pcie" not in name for name in names_of]
    cards = [group.host.network.link.latency / 2 for group in cluster.groups]
    (across,) = cluster.topology.routes(np.array([16]), np.array([24])).latency
    assert across == pytest.approx(cards[1] + cards[2])


@settings(max_examples=12)
@given(st.lists(st.tuples(st.sampled_from(HOSTS), st.integers(1, 3)), min_size=2, max_size=4), st.data())
def test_names_numbers_and_routes_of_any_groups(groups, data):
    cluster = mixed(*groups)
    topology = cluster.topology
    assert isinstance(topology, JoinedTopology)
    count = topology.num_devices
    src = np.array(data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=12)))
    dst = np.array([data.draw(st.integers(0, count - 1)) for _ in src])
    found = connected(topology, src, dst)
    away = cluster.hosts_of(src) != cluster.hosts_of(dst)
    assert ((found.reach == Reach.NETWORK) <= away).all()
    up = connected(topology, src, np.full(len(src), topology.network.root))
    connected(topology, np.full(len(src), topology.network.root), dst)
    assert (up.links[:, 0] >= 0).all()
    links = np.unique(found.links[found.links >= 0])
    for link in links.tolist():
        assert topology.matching(topology.name(link)).tolist() == [link]
    every = np.arange(topology.num_nodes)
    told = [topology.node_name(node) for node in every.tolist()]
    assert len(set(told)) == len(told)
    hosts = topology.host_of(every)
    assert hosts[:count].tolist() == cluster.hosts_of(np.arange(count)).tolist()
    for node, host in zip(told, hosts.tolist(), strict=True):
        assert node.startswith(f"host.{host}.") or (host < 0 and not node.startswith("host."))
    tails, heads = topology.ends(np.arange(topology.num_links))
    assert tails.min() >= 0 and heads.max() < topology.num_nodes
    assert set(links.tolist()) <= set(topology.between_devices().tolist())


@given(st.integers(1, 3), st.integers(1, 3))
def test_half_of_the_devices_can_send_what_the_cards_in_between_carry(one, other):
    cluster = mixed(("dgx-h100", one), ("dgx-h100", one), ("atlas-800t-a2", other), ("atlas-800t-a2", other))
    rates = [group.num_devices * group.host.network.link.rate for group in cluster.groups]
    if one == other:
        assert bisection_rate(cluster.topology) == pytest.approx(
            min(rates[0] + rates[1], rates[2] + rates[3])
        )


def test_a_cards_way_through_the_joint_network_is_that_of_the_devices():
    topology = mixed(*THREE).topology
    cards = np.array([0, 8, 16, 24])
    crossing = topology.network.cross(cards[[0, 0, 2]], cards[[1, 2, 3]])
    told = [[topology.name(link) for link in row if link >= 0] for row in crossing.links.tolist()]
    assert told[0] == []
    assert told[1] == ["group.0.unit.0.rail.0.up", "group.0.trunk.up", "group.1.trunk.down"]
    assert told[2] == ["group.1.trunk.up", "group.2.trunk.down"]


# -- groups of ranks ------------------------------------------------------------------------------------


def test_groups_over_several_kinds_lie_apart_from_those_of_one():
    cluster = mixed(("dgx-h100", 1), ("atlas-800t-a2", 1), ("dgx-h100", 1))
    rows = np.array([[0, 1], [16, 17], [0, 8], [16, 9], [0, 16], [8, 9]])
    found, which = cluster.placements(rows)
    assert [found[i].kinds for i in which] == [(0,), (0,), (0, 1), (0, 1), (0,), (1,)]
    assert which[0] == which[1] and len(set(which.tolist())) == 5


def test_a_collective_over_several_kinds_takes_the_slower_figures_of_all():
    cluster = mixed(("dgx-h100", 1), ("atlas-800t-a2", 1))
    both, own = cluster.host_of((0, 1)), [group.host for group in cluster.groups]
    assert cluster.host_of((0,)) is own[0] and cluster.host_of((1,)) is own[1]
    assert (both.library, both.channels) == ("", None)
    assert set(both.protocols) == set(own[0].protocols) | set(own[1].protocols)
    found, apart = both.protocols_of("default"), [host.protocols_of("default") for host in own]
    assert len(found) == len(apart[0]) * len(apart[1])
    for each, (one, other) in zip(found, product(*apart), strict=True):
        assert each.base == max(one.base, other.base)
        assert each.shares == tuple(map(min, one.shares, other.shares))
    size = 64 << 20
    times = [
        collective_time(Operation.SEND_RECEIVE, where.placement([0, 8]), size, where).seconds
        for where in (cluster, load_cluster("dgx-h100", hosts=2), load_cluster("atlas-800t-a2", hosts=2))
    ]
    assert times[0] >= max(times[1:]) > min(times[1:])
    for operation in (Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.ALL_TO_ALL):
        time = collective_time(operation, cluster.placement(range(16)), size, cluster)
        slow = collective_time(operation, cluster.placement(range(8, 16)), size, cluster)
        assert time.seconds > slow.seconds


@pytest.mark.thorough
@given(st.integers(1, 3), st.integers(1, 3), st.data())
def test_equal_groups_are_one_long_group(one, other, data):
    """Placements and ways over two groups of a kind are those of all their hosts in one."""
    cluster, plain = (
        mixed(("dgx-h100", one), ("dgx-h100", other)),
        load_cluster("dgx-h100", hosts=one + other),
    )
    ranks = sorted(data.draw(st.sets(st.integers(0, plain.num_devices - 1), min_size=2, max_size=12)))
    mine, theirs = cluster.placement(ranks), plain.placement(ranks)
    for name in ("num_ranks", "num_hosts", "ranks_per_host", "fewest_per_host", "rails", "inside", "between"):
        assert getattr(mine, name) == getattr(theirs, name)
    src, dst = np.array(ranks[:1]), np.array(ranks[-1:])
    assert cluster.topology.routes(src, dst).reach == plain.topology.routes(src, dst).reach
