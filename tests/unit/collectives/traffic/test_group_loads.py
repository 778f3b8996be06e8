"""Loads that are carried over from group to group are those that each group's own routes give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster import Cluster, ClusterSpec
from simcluster.collectives import Operation, algorithm_routine, all_algorithms, group_loads_of, group_site_of
from simcluster.collectives.traffic import group_loads as grouped
from simcluster.collectives.traffic.link_loads import normalised, phases
from simcluster.document import validate_data
from tests.contracts.collective_cases import PAIRS

REDUCES = {"operations": ["all_reduce", "barrier"], "formats": ["bf16"]}
NETWORKS = {
    "switch": {"kind": "switch"},
    "leaves": {"kind": "leaf_spine", "hosts_per_leaf": 2, "oversubscription": 2},
    "three tiers": {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves_per_block": 2},
    "rails": {"kind": "rail_optimised", "hosts_per_unit": 2},
    "rails over spines": {"kind": "rail_optimised", "hosts_per_unit": 2, "cross_rail": "spine"},
    "rails in blocks": {"kind": "rail_optimised", "hosts_per_unit": 2, "units_per_block": 2},
    "reducing": {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves_per_block": 2, "reduces": REDUCES},
    "reducing rails": {"kind": "rail_optimised", "hosts_per_unit": 2, "reduces": REDUCES},
    "hashed": {"kind": "leaf_spine", "hosts_per_leaf": 2, "ecmp": "hash"},
}
HOSTS = 12


def built(host: str, network: str) -> Cluster:
    return validate_data({"use": host, "hosts": HOSTS, "network": NETWORKS[network]}, ClusterSpec).build()


CLUSTERS = {name: built("dgx-h100", name) for name in NETWORKS} | {
    "islands": built("atlas-800", "leaves"),
    "partial meshes": built("dgx-1v", "rails"),
    "fewer cards": built("l40s-8", "rails"),
    "pods": validate_data({"use": "gb200-nvl72", "hosts": 54}, ClusterSpec).build(),
    "mixed": validate_data(
        {"groups": [{"use": "dgx-h100", "hosts": 6}, {"use": "dgx-a100", "hosts": 6}]}, ClusterSpec
    ).build(),
}


@st.composite
def groups(draw):
    """Groups of a cluster [groups, size]: the same places of other hosts, in any order of hosts."""
    name = draw(st.sampled_from(sorted(CLUSTERS)))
    cluster = CLUSTERS[name]
    size = 8 if cluster.mixed else cluster.host.num_devices
    hosts = draw(st.permutations(range(cluster.num_hosts)))
    widest = draw(st.integers(1, 3))
    wide = draw(st.integers(1 if widest > 1 else 2, 4))
    rows = np.array(hosts)[: cluster.num_hosts // wide * wide].reshape(-1, wide)
    if draw(st.booleans()):
        rows = np.sort(rows, axis=1)
    sets = st.lists(st.integers(0, size - 1), min_size=widest, max_size=widest, unique=True)
    found = [
        (rows[:, :, np.newaxis] * size + np.array(places)).reshape(len(rows), -1)
        for places in draw(st.lists(sets, min_size=1, max_size=3))
    ]
    return cluster, np.concatenate(found)


def by_own_routes(steps, where, members, topology):
    return [normalised(each, len(members), topology) for each in phases(steps, where, members, topology)]


@settings(max_examples=40)
@given(groups(), st.sampled_from(PAIRS))
def test_every_group_loads_what_its_own_routes_do(found, pair):
    (cluster, members), (kind, operation) = found, pair
    if operation is Operation.SEND_RECEIVE:
        members = members[:, :2]
    placements, index = cluster.placements(members)
    for number, placement in enumerate(placements):
        where = group_site_of(placement, cluster)
        if not all_algorithms()[kind].supports(operation, where):
            continue
        steps, mine = algorithm_routine(kind, operation, placement, cluster), members[index == number]
        quick = group_loads_of(steps, where, mine, cluster.topology)
        slow = by_own_routes(steps, where, mine, cluster.topology)
        for one, other in zip(quick, slow, strict=True):
            assert np.array_equal(one.offsets, other.offsets)
            assert np.array_equal(one.links, other.links)
            assert np.array_equal(one.loads, other.loads)
            assert np.array_equal(one.scale, other.scale)


@pytest.mark.parametrize(("network", "looked_at"), [("rails", [8]), ("hashed", [16])])
def test_routes_are_looked_up_for_one_group_of_every_kind(network, looked_at, monkeypatch):
    cluster = CLUSTERS[network]
    seen = []

    def counting(steps, where, members, *others):
        seen.append(len(members))
        return phases(steps, where, members, *others)

    monkeypatch.setattr(grouped, "phases", counting)
    # Two groups on each of eight places of their hosts.
    members = np.array([[first + place, first + place + 16] for first in (0, 32) for place in range(8)])
    for number, placement in enumerate(cluster.placements(members)[0]):
        mine = members[cluster.placements(members)[1] == number]
        steps = algorithm_routine("ring", Operation.ALL_GATHER, placement, cluster)
        group_loads_of(steps, group_site_of(placement, cluster), mine, cluster.topology)
    assert [sum(seen)] == looked_at


@pytest.mark.parametrize("network", ["reducing", "reducing rails"])
@pytest.mark.parametrize("kind", ["collnet", "nvls"])
def test_what_meets_in_the_network_is_carried_over_too(network, kind):
    """Groups on one leaf, in one block, and over all."""
    cluster = CLUSTERS[network]
    for hosts in ([[0, 1], [6, 7], [10, 11]], [[0, 2, 3], [4, 6, 7], [8, 10, 11]], [[0, 5], [4, 9]]):
        members = np.array([[8 * host + place for host in row for place in (1, 4)] for row in hosts])
        (placement,), _ = cluster.placements(members)
        where, steps = (
            group_site_of(placement, cluster),
            algorithm_routine(kind, Operation.ALL_REDUCE, placement, cluster),
        )
        quick = group_loads_of(steps, where, members, cluster.topology)
        for one, other in zip(quick, by_own_routes(steps, where, members, cluster.topology), strict=True):
            assert np.array_equal(one.links, other.links) and np.array_equal(one.loads, other.loads)
            assert np.array_equal(one.offsets, other.offsets) and np.array_equal(one.scale, other.scale)
