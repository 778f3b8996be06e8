"""Launchers' files: what is written, read again, gives ranks the same devices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster import AllocatedHost, Allocation, ClusterSpec, MapBy, allocation_formats
from simcluster.document import validate_data
from simcluster.errors import PlanError

HOSTS = ("atlas-800t-a2", "atlas-800", "cloudmatrix-384", "dgx-h100", "cpu-server")
SITES = {
    name: replace(validate_data({"use": name, "hosts": 1}, ClusterSpec).site, num_hosts=None)
    for name in HOSTS
}


def read_again(kind, allocation, site, by=MapBy.SLOT):
    text = allocation_formats()[kind]().write(allocation, site, "a job")
    return text, allocation_formats()[kind]().read(text, "file", site, by)


def devices(allocation, site):
    return allocation.devices(site.devices_per_host, site.hosts_per_pod).tolist()


@st.composite
def rank_tables(draw):
    """Hosts in any order, some of their devices in any order; on the 910A as its rules have it."""
    site = SITES[draw(st.sampled_from(HOSTS[:3]))]
    count = draw(st.integers(1, 5))
    size = site.devices_per_host
    used = draw(st.sampled_from([1, size]) if site.is_910a else st.integers(1, size))
    hosts, rank = [], 0
    for at in draw(st.permutations(range(count))):
        own = draw(st.permutations(range(size)))[:used]
        ranks = draw(st.permutations(range(rank, rank + used)))
        pod = str(draw(st.integers(0, 1))) if site.hosts_per_pod else None
        hosts.append(AllocatedHost(f"10.0.0.{3 * at}", tuple(ranks), tuple(own), pod=pod))
        rank += used
    # Servers of one super-pod stand next to each other.
    return site, Allocation(tuple(sorted(hosts, key=lambda host: host.pod or "")))


@settings(max_examples=40)
@given(rank_tables())
def test_rank_tables(case):
    site, allocation = case
    text, again = read_again("rank_table", allocation, site)
    assert devices(again, site) == devices(allocation, site)
    assert {host.name for host in again.hosts} == {host.name for host in allocation.hosts}
    assert ('"version": "1.2"' in text) == bool(site.hosts_per_pod)
    # Addresses that were made up once are kept from then on.
    assert read_again("rank_table", again, site)[0] == text


@settings(max_examples=40)
@given(
    st.sampled_from(HOSTS),
    st.lists(st.integers(1, 8), min_size=1, max_size=5),
    st.sampled_from(MapBy),
    st.randoms(use_true_random=False),
)
def test_hostfiles(host, slots, by, generator):
    site = SITES[host]
    slots = [min(count, site.devices_per_host) for count in slots]
    names = [f"node{at}" for at in range(len(slots))]
    generator.shuffle(names)
    allocation = Allocation.dealt(names, slots, sum(slots), by)
    text, again = read_again("hostfile", allocation, site, by)
    assert f"--map-by {allocation.dealt_by}" in text
    assert devices(again, site) == devices(allocation, site)


@settings(max_examples=30)
@given(st.sampled_from(HOSTS), st.integers(1, 40), st.integers(0, 3))
def test_msjobs(host, workers, servers):
    site = replace(SITES[host], num_servers=servers)
    ranks = workers + (servers + 1 if servers else 0)
    size = site.devices_per_host
    hosts = -(-ranks // size)
    allocation = Allocation.dealt([f"node{at}" for at in range(hosts)], [size] * hosts, ranks, MapBy.SLOT)
    _, again = read_again("msjob", allocation, site)
    assert devices(again, site) == devices(allocation, site) == list(range(ranks))
    assert again.job is not None
    counts = [again.job.count(role) for role in ("Scheduler", "PS", "Worker")]
    assert counts == [int(workers + servers > 1), servers, workers]


@pytest.mark.parametrize("host", HOSTS[:3])
def test_a_plain_cluster_is_in_order(host):
    """The file of a cluster that is used whole is read as that cluster, not as a part of one."""
    spec = validate_data({"use": host, "hosts": 3}, ClusterSpec)
    allocation = spec.allocated(spec.build())
    for kind in allocation_formats():
        _, again = read_again(kind, allocation, SITES[host])
        assert devices(again, SITES[host]) == list(range(spec.num_devices))


@pytest.mark.parametrize("kind", ["hostfile", "msjob"])
def test_some_cannot_say_which_device(kind):
    host = AllocatedHost("a", (0, 1, 2, 3), (0, 4, 1, 5))
    with pytest.raises(PlanError, match="cannot say which rank has which device"):
        read_again(kind, Allocation((host,)), SITES["atlas-800"])


def test_rank_tables_are_for_ascend():
    with pytest.raises(PlanError, match="for Ascend devices, not for h100-sxm"):
        read_again("rank_table", Allocation((AllocatedHost("a", (0,), (0,)),)), SITES["dgx-h100"])


def test_hosts_stand_in_the_order_of_their_names():
    names = ["10.0.0.10", "10.0.0.2", "10.0.0.9"]
    allocation = Allocation.dealt(names, [2, 2, 2], 6, MapBy.SLOT)
    assert allocation.places(0) == (2, 0, 1)
    assert allocation.devices(8, 0).tolist() == [16, 17, 0, 1, 8, 9]


def test_super_pods_begin_at_pods():
    """A logical super-pod is one of the fabric's, whatever fits into it; servers without one are alone."""
    hosts = tuple(AllocatedHost(f"s{at}", (at,), (0,), pod=pod) for at, pod in enumerate(["a", "a", "b"]))
    assert Allocation(hosts).places(48) == (0, 1, 48)
    alone = tuple(AllocatedHost(f"s{at}", (at,), (0,)) for at in range(2))
    assert Allocation(alone, apart=True).places(48) == (0, 48)
    assert Allocation(alone).places(48) == (0, 1)
    many = tuple(AllocatedHost(f"s{at}", (at,), (0,), pod="a") for at in range(3))
    with pytest.raises(ValueError, match="at most 2"):
        Allocation(many).places(2)


def test_ranks_on_devices_in_any_order():
    cluster = validate_data({"use": "atlas-800", "hosts": 2}, ClusterSpec).build()
    part = cluster.with_ranks_on(np.array([12, 3, 0, 9]))
    assert part.num_devices == 4
    assert part.num_hosts == 2
    assert part.hosts.tolist() == [1, 0]
    assert part.hosts_of(np.arange(4)).tolist() == [1, 0, 0, 1]
    assert part.placement([0, 3]).num_hosts == 1
    for wrong in ([], [0, 0], [16], [-1]):
        with pytest.raises(ValueError, match="no such part"):
            cluster.with_ranks_on(np.array(wrong, dtype=np.int64))
