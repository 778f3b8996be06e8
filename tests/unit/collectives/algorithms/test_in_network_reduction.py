"""Reduction in the network: loads, closed forms, and when a library takes it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster import Cluster, Protocol, load_cluster
from simcluster.cluster.interconnect.in_network_reduction import SwitchReduction
from simcluster.cluster.networks.leaf_spine import LeafSpine
from simcluster.cluster.networks.switch import Switch
from simcluster.cluster.topology.host_group import HostGroup
from simcluster.collectives import (
    CollectiveRequest,
    Operation,
    algorithm_routine,
    collective_time,
    group_loads_of,
    group_site_of,
)
from simcluster.collectives.traffic.link_loads import phases
from simcluster.errors import PlanError
from tests.support.collective_costs import BASE, HOST_HOP, HOST_RATE, NETWORK_HOP, NETWORK_RATE, even, plain
from tests.support.networks import EXAMPLES, REDUCES, TREES, cluster

REDUCE = Operation.ALL_REDUCE
OWN = (Protocol("only", BASE, (HOST_HOP, NETWORK_HOP), (1.0, 1.0)),)
PLAIN = plain(protocols={"default": OWN, "collnet": OWN}, hosts=256)
sizes = st.integers(1, 10**12)


def reducing(network=Switch, rate: float = float("inf"), operations=("all_reduce", "barrier")) -> Cluster:
    """The plain cluster on a network that reduces bf16."""
    lay = partial(network, reduces=SwitchReduction(operations, ("bf16",), rate))
    return replace(PLAIN, groups=tuple(HostGroup(each.host, each.num_hosts, lay) for each in PLAIN.groups))


IDEAL = reducing()
LEAVES = reducing(partial(LeafSpine, hosts_per_leaf=2))
SHARP = load_cluster("dgx-h100-sharp", 48)


@given(st.integers(2, 64), st.integers(1, 8), sizes)
@settings(max_examples=40)
def test_a_card_sends_its_part_once_and_gets_it_once(hosts, mates, size):
    """Reduce-scatter and all-gather inside stream behind one another, beside the way up and down."""
    found = collective_time(REDUCE, even(hosts, mates, IDEAL), size, IDEAL, "collnet")
    waits = BASE + NETWORK_HOP + (2 * HOST_HOP if mates > 1 else 0)
    inside, across = 2 * (mates - 1) / mates * size / HOST_RATE, size / mates / NETWORK_RATE
    assert found.seconds == pytest.approx(waits + max(inside, across))


@given(st.integers(2, 64), sizes, st.floats(1e8, 1e12))
@settings(max_examples=40)
def test_no_reduction_is_faster_than_its_switches(hosts, size, rate):
    limited = reducing(rate=rate)
    found = collective_time(REDUCE, even(hosts, 2, limited), size, limited, "collnet")
    free = collective_time(REDUCE, even(hosts, 2, IDEAL), size, IDEAL, "collnet")
    assert found.transfer == pytest.approx(max(free.transfer, size / 2 / rate))
    assert found.latency == free.latency


def test_a_link_between_switches_carries_a_part_once_for_all_below_it():
    """Two hosts on a leaf: what both send for the others leaves it once, and comes back once."""
    topology, placement = LEAVES.topology, even(6, 8, LEAVES)
    steps = algorithm_routine("collnet", REDUCE, placement, LEAVES)
    (found,) = phases(steps, group_site_of(placement, LEAVES), placement.ranks[np.newaxis], topology)
    carried = {topology.name(link): size for link, size in zip(found.links, found.network, strict=True)}
    for leaf in range(3):
        assert carried[f"leaf.{leaf}.up"] == carried[f"leaf.{leaf}.down"] == pytest.approx(1.0)
    assert all(
        carried[f"host.{host}.nic.{card}.{way}"] == pytest.approx(1 / 8)
        for host in range(6)
        for card in range(8)
        for way in ("out", "in")
    )


def test_hosts_of_one_leaf_meet_there():
    topology = LEAVES.topology
    members = LEAVES.placement([*range(16, 32)])
    (found,) = phases(
        algorithm_routine("collnet", REDUCE, members, LEAVES),
        group_site_of(members, LEAVES),
        members.ranks[np.newaxis],
        topology,
    )
    assert not [name for name in map(topology.name, found.links.tolist()) if name.startswith("leaf")]


@pytest.mark.parametrize("kind", TREES)
@settings(max_examples=10)
@given(data=st.data())
def test_the_tree_is_all_ways_between_members_together(kind, data):
    """In a tree, the links between any two members are those up to where all meet, and down again."""
    found = CLUSTERS[kind]
    hosts = data.draw(st.lists(st.integers(0, 7), min_size=2, max_size=8, unique=True))
    places = data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=4, unique=True))
    placement = found.placement([host * 8 + place for host in hosts for place in places])
    topology = found.topology
    (traffic,) = phases(
        algorithm_routine("collnet", REDUCE, placement, found),
        group_site_of(placement, found),
        placement.ranks[np.newaxis],
        topology,
    )
    wanted: dict[int, float] = {}
    for place in places:
        ranks = np.array([host * 8 + place for host in hosts])
        one, other = (each.ravel() for each in np.meshgrid(ranks, ranks))
        ways = topology.routes(one[one != other], other[one != other]).links
        for link in np.unique(ways[ways >= 0]).tolist():
            wanted[link] = wanted.get(link, 0.0) + 1 / len(places)
    across = {link: size for link, size in zip(traffic.links.tolist(), traffic.network, strict=True) if size}
    assert across.keys() == wanted.keys()
    assert all(across[link] == pytest.approx(wanted[link]) for link in wanted)


CLUSTERS = {kind: cluster({**EXAMPLES[kind], "reduces": REDUCES}, 8) for kind in TREES}


@pytest.mark.parametrize("kind", ["collnet", "nvls"])
def test_groups_of_one_placement_load_links_of_their_own_alike(kind):
    members = np.array([[8 * host + place for host in (0, 33, 40)] for place in (0, 3)])
    pairs = np.concatenate([members, members + 1], axis=1)[:, [0, 3, 1, 4, 2, 5]]
    placement, topology = SHARP.placement(pairs[0]), SHARP.topology
    where, steps = group_site_of(placement, SHARP), algorithm_routine(kind, REDUCE, placement, SHARP)
    together = group_loads_of(steps, where, pairs, topology)
    for index, row in enumerate(pairs):
        for one, load in zip(group_loads_of(steps, where, row[np.newaxis], topology), together, strict=True):
            mine = slice(*load.offsets[index : index + 2])
            assert np.array_equal(load.links[mine], one.links) and np.array_equal(load.loads[mine], one.loads)


def test_a_reducing_switch_in_hosts_and_network():
    """NVLS between hosts: S and S / p out of a device, S / p out of a card, whatever the number of hosts."""
    rate, card = SHARP.host.fabric.link.rate, SHARP.host.network.link.rate
    (protocol,) = SHARP.host.protocols_of("nvls")
    for hosts in (2, 16, 48):
        found = collective_time(REDUCE, SHARP.placement(range(8 * hosts)), 2**33, SHARP, "nvls")
        assert found.latency == pytest.approx(protocol.base + sum(protocol.hops))
        inside, across = 9 / 8 * 2**33 / rate / protocol.shares[0], 2**33 / 8 / card
        assert found.transfer == pytest.approx(max(inside, across), rel=1e-5)


def test_only_a_network_that_reduces_is_asked_to():
    size = 2**30
    plain_host = load_cluster("dgx-h100", 48)
    for ranks in (range(8), range(2), range(16), range(384), [0, 8, 16], [0, 1, 8]):
        for num_bytes in (2**10, 2**20, size):
            without = collective_time(REDUCE, plain_host.placement(ranks), num_bytes, plain_host)
            found = collective_time(REDUCE, SHARP.placement(ranks), num_bytes, SHARP)
            assert found.seconds <= without.seconds
            assert without.algorithm in (
                ("nvls", "ring", "tree") if max(ranks) < 8 else ("nvls_tree", "ring", "tree")
            )
            if max(ranks) < 8:
                assert found == without
    assert collective_time(REDUCE, SHARP.placement(range(384)), size, SHARP).algorithm == "nvls"
    small = collective_time(REDUCE, SHARP.placement(range(384)), 2**10, SHARP)
    assert small.algorithm == "collnet"
    gather = collective_time(Operation.ALL_GATHER, SHARP.placement(range(384)), size, SHARP)
    assert gather.algorithm == "ring"


@pytest.mark.parametrize(
    ("where", "wanted", "message"),
    [
        (PLAIN, CollectiveRequest("collnet"), "the network does not reduce; write 'reduces'"),
        (IDEAL, CollectiveRequest("collnet", format="fp32"), "the network reduces bf16, not fp32"),
        (
            reducing(operations=("barrier",)),
            CollectiveRequest("collnet"),
            "reduces for barrier, not for all_reduce",
        ),
        (IDEAL, CollectiveRequest("nvls"), "it does not fit 2 units of 8"),
        (load_cluster("dgx-h100", 2), CollectiveRequest("nvls"), "the network does not reduce"),
        (
            cluster(EXAMPLES["switch"] | {"reduces": REDUCES}, 2, "dgx-a100"),
            CollectiveRequest("collnet"),
            "file of host 'dgx-a100' has no protocol of it under collectives.collnet",
        ),
    ],
)
def test_why_a_network_cannot(where, wanted, message):
    with pytest.raises(PlanError, match=f"cannot do all_reduce for 16 ranks placed like this: .*{message}"):
        collective_time(REDUCE, where.placement(range(16)), 8, where, wanted)


def test_one_host_has_no_network_to_reduce():
    with pytest.raises(PlanError, match="it does not fit 1 unit of 8"):
        collective_time(REDUCE, IDEAL.placement(range(8)), 8, IDEAL, "collnet")


def test_a_format_that_is_not_reduced_goes_another_way():
    placement = even(4, 8, IDEAL)
    for number_format in ("", "bf16"):
        found = collective_time(REDUCE, placement, 2**20, IDEAL, CollectiveRequest(format=number_format))
        assert found.algorithm == "collnet"
    other = collective_time(REDUCE, placement, 2**20, IDEAL, CollectiveRequest(format="fp32"))
    assert other == collective_time(REDUCE, placement, 2**20, PLAIN)
