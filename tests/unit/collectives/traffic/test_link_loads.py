"""Loads on links: counted exchanges are those that routes give, phases are normalised and grouped."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster import load_cluster
from simcluster.collectives import (
    GroupSite,
    Operation,
    Routine,
    algorithm_routine,
    all_algorithms,
    group_loads_of,
    group_site_of,
)
from simcluster.collectives.step import GroupExchange, Sends
from simcluster.collectives.traffic.link_loads import GRAIN, phases
from tests.contracts.collective_cases import PAIRS

CLUSTERS = {
    name: load_cluster(name, hosts)
    for name, hosts in {
        "dgx-h100": 40,
        "dgx-a100": 24,
        "dgx-1v": 4,
        "atlas-800t-a2": 4,
        "gb200-nvl72": 36,
        "atlas-800": 3,
        "l40s-8": 3,
    }.items()
}


def listed(step: GroupExchange) -> Sends:
    """The same with all its sends listed."""
    src, dst = step.sends()
    return Sends(
        src=src, dst=dst, modulus=step.size, count=step.size, repeat=step.repeat, streams=step.streams
    )


@st.composite
def groups(draw):
    """Ranks of a cluster: some places of some hosts, or any ranks at all."""
    name = draw(st.sampled_from(sorted(CLUSTERS)))
    cluster = CLUSTERS[name]
    size = cluster.host.num_devices
    if draw(st.booleans()):
        hosts = draw(st.lists(st.integers(0, cluster.num_hosts - 1), min_size=1, max_size=36, unique=True))
        places = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=size, unique=True))
        ranks = [host * size + place for host in sorted(hosts) for place in places]
    else:
        every = st.integers(0, cluster.num_devices - 1)
        ranks = draw(st.lists(every, min_size=2, max_size=24, unique=True))
    return cluster, ranks if len(ranks) > 1 else [0, cluster.num_devices - 1]


@settings(max_examples=25)
@given(groups(), st.sampled_from(["pairwise", "direct", "hierarchical"]))
def test_a_counted_exchange_loads_links_as_its_sends_do(group, kind):
    cluster, ranks = group
    placement = cluster.placement(ranks)
    where = group_site_of(placement, cluster)
    operation = Operation.ALL_TO_ALL
    if not all_algorithms()[kind].supports(operation, where):
        return
    found = algorithm_routine(kind, operation, placement, cluster)
    plain = Routine(found.cut, tuple(listed(each) for each in found.steps if isinstance(each, GroupExchange)))
    members = placement.ranks[np.newaxis]
    for counted, routed in zip(
        phases(found, where, members, cluster.topology),
        phases(plain, where, members, cluster.topology),
        strict=True,
    ):
        assert np.array_equal(counted.links, routed.links)
        assert np.allclose(counted.network, routed.network, rtol=1e-9)
        assert np.allclose(counted.inside, routed.inside, rtol=1e-9)


@pytest.mark.parametrize(("kind", "operation"), PAIRS)
def test_groups_of_one_placement_have_equal_loads_on_links_of_their_own(kind, operation):
    cluster = CLUSTERS["dgx-h100"]
    members = np.array([[0, 8, 16, 24], [2, 10, 18, 26], [7, 15, 23, 31]])
    if operation is Operation.SEND_RECEIVE:
        members = members[:, :2]
    placement = cluster.placement(members[0])
    where: GroupSite = group_site_of(placement, cluster)
    if not all_algorithms()[kind].supports(operation, where):
        return
    steps = algorithm_routine(kind, operation, placement, cluster)
    together = group_loads_of(steps, where, members, cluster.topology)
    for index, row in enumerate(members):
        alone = group_loads_of(steps, where, row[np.newaxis], cluster.topology)
        for one, load in zip(alone, together, strict=True):
            mine = slice(*load.offsets[index : index + 2])
            assert np.array_equal(load.links[mine], one.links) and np.array_equal(load.loads[mine], one.loads)
            assert load.loads[mine].max() * GRAIN == 1.0 and load.loads.dtype == np.int64
            assert load.scale[index] == pytest.approx(one.scale[0]) == pytest.approx(load.scale[0])


def test_what_a_link_carries_is_what_is_sent_over_it():
    cluster = CLUSTERS["dgx-h100"]
    placement = cluster.placement(range(16))
    (found,) = group_loads_of(
        algorithm_routine("ring", Operation.ALL_REDUCE, placement, cluster),
        group_site_of(placement, cluster),
        placement.ranks[np.newaxis],
        cluster.topology,
    )
    carried = {
        cluster.topology.name(link): load * GRAIN for link, load in zip(found.links, found.loads, strict=True)
    }
    # A card carries an eighth of what goes round, and is slower than that many sevenths on a device's ports.
    assert found.scale == pytest.approx(2 * 15 / 16 / 8)
    assert carried["host.0.device.3.nvlink.out"] == pytest.approx(7, abs=GRAIN)
    assert carried["host.1.nic.5.out"] == 1
