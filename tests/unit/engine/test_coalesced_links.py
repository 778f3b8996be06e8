"""Links that the same flows load equally are one, and nothing else changes."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.engine.communication import Background, CapacityChange, FlowPhase, Links, Transfer, Vectors
from simcluster.engine.communication import coalesced_links as coalesced_links_module
from simcluster.engine.communication.coalesced_links import coalesce_links
from simcluster.engine.reference.flows import Network
from simcluster.engine.reference.sharing import fair_rates
from tests.support.flows import ends

GB = 1e9


def test_the_cables_of_a_path_become_its_narrowest():
    path = [(link, 1.0) for link in (3, 7, 9)]
    links = Links(np.array([1, 1, 1, 5, 4, 1, 1, 3, 1, 8.0]), Vectors.of([path, [(4, 0.5)]]))
    fewer = coalesce_links(links)
    assert sorted(fewer.capacity.tolist()) == [3, 4]
    assert fewer.vectors.offsets.tolist() == [0, 1, 2]
    assert fewer.capacity[fewer.vectors.links].tolist() == [3, 4]
    assert fewer.vectors.loads.tolist() == [1.0, 0.5]


def test_links_that_differ_in_a_load_or_in_who_uses_them_stay_apart():
    rows = [[(0, 1.0), (1, 0.5), (2, 1.0), (3, 1.0)], [(2, 1.0), (3, 1.0)]]
    fewer = coalesce_links(Links(np.array([4.0, 3.0, 2.0, 1.0]), Vectors.of(rows)))
    assert sorted(fewer.capacity.tolist()) == [1.0, 3.0, 4.0]


def test_a_change_of_one_cable_changes_the_path_where_it_is_the_narrowest():
    changes = (
        CapacityChange(5, 1, 2.0),
        CapacityChange(3, 0, 9.0),
        CapacityChange(9, 1, 50.0),
        CapacityChange(9, 2, 1.0),
    )
    fewer = coalesce_links(Links(np.array([4.0, 10.0, 1.0]), Vectors.of([[(0, 1.0), (1, 1.0)]]), changes))
    assert fewer.changes == (CapacityChange(3, 0, 9.0), CapacityChange(5, 0, 2.0), CapacityChange(9, 0, 9.0))


def test_columns_are_compared_even_where_their_digests_are_equal(monkeypatch):
    monkeypatch.setattr(coalesced_links_module, "_mixed", np.zeros_like)
    rows = [[(0, 1.0), (1, 1.0), (2, 0.5), (3, 1.0)]]
    fewer = coalesce_links(Links(np.array([4.0, 3.0, 2.0, 7.0]), Vectors.of(rows)))
    assert fewer.capacity[fewer.vectors.links].tolist()[0] == 3.0
    assert sorted(fewer.vectors.loads.tolist()) == [0.5, 1.0]


def test_nothing_loaded_stays_as_it_is():
    links = Links(np.ones(3), Vectors.of([[], []]))
    assert coalesce_links(links) is links


@st.composite
def repeated(draw):
    """Vectors over few columns, each on several links of different capacity, with changes and background."""
    copies = draw(st.integers(1, 3))
    num_links = draw(st.integers(1, 3))
    row = st.dictionaries(st.integers(0, num_links - 1), st.sampled_from([1.0, 0.5, 3.0]), max_size=num_links)
    rows = [
        [(link * copies + copy, load) for link, load in found.items() for copy in range(copies)]
        for found in draw(st.lists(row, min_size=1, max_size=4))
    ]
    rates = st.sampled_from([GB, 0.3 * GB, 7 * GB])
    size = num_links * copies
    capacity = draw(st.lists(rates, min_size=size, max_size=size))
    vector = st.integers(0, len(rows) - 1)
    changes = draw(
        st.lists(st.builds(CapacityChange, st.integers(0, 3000), st.integers(0, size - 1), rates), max_size=3)
    )
    background = draw(st.lists(st.builds(Background, vector, rates, st.integers(0, 1000)), max_size=2))
    phase = st.builds(FlowPhase, vector, st.integers(1, 3000).map(float), st.just(2 * GB))
    one = st.tuples(
        st.integers(0, 2000), st.builds(Transfer, st.just(10), st.lists(phase, max_size=2).map(tuple))
    )
    links = Links(np.array(capacity), Vectors.of(rows), tuple(changes), tuple(background))
    return links, draw(st.lists(one, min_size=1, max_size=5))


@given(repeated())
@settings(max_examples=40)
def test_everything_ends_in_the_same_nanosecond(found):
    links, transfers = found
    times = []
    for each in (links, coalesce_links(links)):
        env = simpy.Environment()
        times.append(ends(env, Network(env, each), transfers))
    assert times[0] == times[1]


@given(repeated())
@settings(max_examples=40)
def test_rates_are_the_same_to_the_last_bit(found):
    links, _ = found
    fewer = coalesce_links(links)
    caps = [math.inf] * len(links.vectors)
    one = fair_rates(rows_of(links), caps, links.capacity.tolist())
    assert one == fair_rates(rows_of(fewer), caps, fewer.capacity.tolist())


def rows_of(links):
    """(link, load) pairs by vector."""
    pairs = list(zip(links.vectors.links.tolist(), links.vectors.loads.tolist(), strict=True))
    return [pairs[first:end] for first, end in pairwise(links.vectors.offsets.tolist())]
