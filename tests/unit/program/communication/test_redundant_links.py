"""Which links of a network cannot hold a flow back: by closed forms, and by rates with and without them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from simcluster.cluster import ClusterSpec
from simcluster.collectives import Operation, algorithm_routine, group_loads_of, group_site_of
from simcluster.document import validate_data
from simcluster.program import GroupLoads, LinkLoading, ProgramLoads, without_redundant_links

HOSTS = 6


def cluster_of(**network):
    return validate_data({"use": "dgx-h100", "hosts": HOSTS, "network": network}, ClusterSpec).build()


def ring_loads(cluster, hosts):
    """A ring over card 0 of these hosts, one group."""
    members = np.array([[8 * host for host in hosts]])
    placement = cluster.placement(members[0])
    steps = algorithm_routine("ring", Operation("all_gather"), placement, cluster)
    (load,) = group_loads_of(steps, group_site_of(placement, cluster), members, cluster.topology, None)
    rows = GroupLoads(load.offsets, load.links, load.loads)
    return ProgramLoads(LinkLoading(np.zeros(cluster.topology.num_links, np.int64), {("data",): [rows]}), {})


def used_names(loads, cluster):
    (rows,) = loads.loading.groups["data",]
    return {cluster.topology.name(link) for link in rows.links.tolist()}


@pytest.mark.parametrize(
    ("network", "kept"),
    [
        ({"kind": "leaf_spine", "hosts_per_leaf": 2}, set()),
        ({"kind": "leaf_spine", "hosts_per_leaf": 2, "oversubscription": 4}, {"leaf"}),
        ({"kind": "rail_optimised", "hosts_per_unit": 2}, set()),
        ({"kind": "rail_optimised", "hosts_per_unit": 2, "oversubscription": 1.25}, {"unit"}),
        ({"kind": "fat_tree", "hosts_per_leaf": 2, "leaves_per_block": 2}, set()),
        (
            {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves_per_block": 2, "oversubscription": [1, 2]},
            {"spine"},
        ),
        ({"kind": "leaf_spine", "hosts_per_leaf": 2, "ecmp": "hash"}, {"leaf"}),
    ],
)
def test_cables_that_carry_what_their_cards_carry_are_left_out(network, kept):
    cluster = cluster_of(**network)
    loads = ring_loads(cluster, range(HOSTS))
    fewer = without_redundant_links(loads, cluster)
    before, after = used_names(loads, cluster), used_names(fewer, cluster)
    assert {name for name in before if name.startswith("host")} <= after
    assert {name.split(".")[0] for name in after} - {"host"} == kept
    assert {name.split(".")[0] for name in before} > {"host"}


def test_a_link_that_a_group_loads_more_than_its_cards_is_kept():
    cluster = cluster_of(kind="leaf_spine", hosts_per_leaf=2)
    loads = ring_loads(cluster, range(HOSTS))
    (rows,) = loads.loading.groups["data",]
    (up,) = cluster.topology.matching("leaf.1.up").tolist()
    heavier = GroupLoads(rows.offsets, rows.links, np.where(rows.links == up, 3 * rows.loads, rows.loads))
    loads = replace(loads, loading=replace(loads.loading, groups={("data",): [heavier]}))
    assert {
        name for name in used_names(without_redundant_links(loads, cluster), cluster) if "leaf" in name
    } == {"leaf.1.up"}


def test_nothing_is_left_out_where_links_change_or_others_send():
    cluster = cluster_of(kind="leaf_spine", hosts_per_leaf=2)
    loads = ring_loads(cluster, range(HOSTS))
    for changed in ({"link_changes": [1]}, {"background": [1]}, {"mixed": True}):
        told = {"mixed": False, "link_changes": (), "background": (), "topology": cluster.topology}
        assert without_redundant_links(loads, SimpleNamespace(**told | changed)) is loads
