from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.cluster import Reach, Span
from simcluster.cluster.span import Places


def slow_span(group, devices, nics, island=0, pod=0) -> Span:
    """The span of one group, host by host; with pods too far apart, pod by pod."""
    several_pods = bool(pod) and len({rank // (devices * pod) for rank in group}) > 1
    size = devices * pod if several_pods else devices
    parts = [[rank for rank in group if rank // size == host] for host in {rank // size for rank in group}]
    sizes = [len(part) for part in parts]
    inside = Reach.HOST
    if max(len({rank // devices for rank in part}) for part in parts) > 1:
        inside = Reach.POD
    elif island and all(len({rank // island for rank in part}) == 1 for part in parts):
        inside = Reach.ISLAND
    in_pod = bool(pod) and not several_pods and len(parts) > 1
    cards = [{(rank // devices, rank % devices * nics // devices) for rank in part} for part in parts]
    return Span(
        len(group),
        len(parts),
        max(sizes),
        min(sizes),
        min(sizes) if in_pod else min(map(len, cards)),
        inside,
        Reach.POD if in_pod else Reach.NETWORK,
        max(len({rank // devices for rank in part}) for part in parts),
    )


def plain_span(group, devices, nics) -> Span:
    hosts = Counter(rank // devices for rank in group)
    rails = {host: {r % devices * nics // devices for r in group if r // devices == host} for host in hosts}
    fewest_rails = min(len(found) for found in rails.values())
    return Span(len(group), len(hosts), max(hosts.values()), min(hosts.values()), fewest_rails)


@given(st.data(), st.integers(1, 6), st.integers(1, 9), st.integers(1, 9))
def test_many_groups_at_once_are_each_group_alone(data, size, devices, nics):
    nics = min(nics, devices)
    group = st.lists(st.integers(0, 40), min_size=size, max_size=size, unique=True)
    groups = data.draw(st.lists(group, min_size=1, max_size=8))
    found, index = Places(devices, nics).spans(np.array(groups))
    assert [found[i] for i in index] == [slow_span(group, devices, nics) for group in groups]
    assert [found[i] for i in index] == [plain_span(group, devices, nics) for group in groups]
    assert found == sorted(set(found))


@given(st.data(), st.integers(1, 6), st.sampled_from([(4, 2), (4, 0), (6, 3), (2, 1)]), st.integers(0, 3))
def test_islands_and_pods(data, size, host, pod):
    devices, island = host
    nics = data.draw(st.integers(1, devices))
    group = st.lists(st.integers(0, 40), min_size=size, max_size=size, unique=True)
    groups = data.draw(st.lists(group, min_size=1, max_size=8))
    found, index = Places(devices, nics, island, pod).spans(np.array(groups))
    assert [found[i] for i in index] == [slow_span(group, devices, nics, island, pod) for group in groups]
    assert found == sorted(set(found))


def test_how_far_two_ranks_lie_apart():
    places = Places(8, 8, devices_per_island=4, hosts_per_pod=3)
    near = places.reach(np.zeros(6, dtype=int), np.array([1, 3, 4, 8, 23, 24]))
    far = [Reach.ISLAND, Reach.ISLAND, Reach.HOST, Reach.POD, Reach.POD, Reach.NETWORK]
    assert near.tolist() == far


def test_groups_in_and_across_racks():
    rack = Places(4, 4, hosts_per_pod=18)
    ranks = np.arange(144)
    (inside,), _ = rack.spans(ranks[np.newaxis, :72])
    assert inside == Span(72, 18, 4, 4, 4, Reach.HOST, Reach.POD, 1)
    (across,), _ = rack.spans(ranks[np.newaxis])
    assert across == Span(144, 2, 72, 72, 72, Reach.POD, Reach.NETWORK, 18)
    (pairs,), _ = rack.spans(np.stack([ranks[:72], ranks[72:]], axis=1))
    assert pairs == Span.even(2, 1)


def test_the_axes_of_a_mesh():
    ranks = np.arange(32).reshape(2, 2, 8)
    tensor, data = ranks.reshape(-1, 8), np.moveaxis(ranks, 1, 2).reshape(-1, 2)
    assert Places(8, 8).spans(tensor)[0] == [Span.even(1, 8)]
    assert Places(8, 8).spans(data)[0] == [Span.even(2, 1)]
    assert Places(8, 4).spans(ranks.reshape(1, -1))[0] == [Span.even(4, 8, rails=4)]


def test_a_group_that_lies_unevenly():
    found, index = Places(8, 8).spans(np.array([[0, 1, 2, 8], [16, 17, 18, 19]]))
    assert [found[i] for i in index] == [Span(4, 2, 3, 1, 1), Span.even(1, 4)]


@pytest.mark.parametrize("size", [1, 2, 8, 64, 1024, 16384])
def test_sixteen_thousand_ranks(size):
    groups = np.arange(16384).reshape(size, -1).T
    found, index = Places(8, 8).spans(groups)
    assert len(found) == 1 and index.shape == (16384 // size,)
