from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.cluster import Span
from simcluster.cluster.span import Places


def slow_span(group, devices, nics) -> Span:
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
    assert found == sorted(set(found))


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
