"""From when on links are full, against looking at every instant."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.engine.compiled.arrays import NEVER
from simcluster.engine.compiled.link_demand import Demand, first_overloads


def overloads(capacity, *rows):
    """The first time at which each link is full; None for those that never are."""
    link, begin, end, rate = zip(*rows, strict=True) if rows else ((), (), (), ())
    ints = (np.array(column, dtype=np.int64) for column in (link, begin, end))
    found = first_overloads(Demand(*ints, np.array(rate, dtype=np.float64)), np.array(capacity, dtype=float))
    return [None if time == NEVER else time for time in found.tolist()]


def test_nothing_loads_nothing():
    assert overloads([1]) == [None]


def test_what_ends_makes_room():
    rows = [(0, 0, 10, 1.0), (0, 10, 20, 1.0), (1, 5, 15, 1.0)]
    assert overloads([1, 1], *rows) == [None, None]
    assert overloads([1, 1], *rows, (0, 19, 30, 1.0)) == [19, None]


def test_the_first_instant_of_every_link():
    rows = [(2, 3, 5, 1.0), (2, 4, 6, 1.0), (1, 0, 9, 1.0), (1, 7, 8, 1.0), (0, 7, 9, 3.0)]
    assert overloads([1, 1, 1], *rows) == [None, 7, 4]


def test_several_may_fill_a_link_only_if_rounding_does_not_matter():
    halves = [(0, 0, 10, 1.0), (0, 2, 9, 2.0)]
    assert overloads([3], *halves) == [None]
    assert overloads([3.5], *halves, (0, 5, 6, 0.5)) == [5]
    assert overloads([1], *[(0, 30, 40, 1 / 7)] * 7) == [30]
    assert overloads([0.5], (0, 3, 4, 0.5)) == [None]


rows = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(1, 9), st.integers(1, 4)), max_size=20
)


@given(rows, st.lists(st.integers(0, 6), min_size=4, max_size=4))
@settings(max_examples=60)
def test_against_looking_at_every_instant(found, capacity):
    found = [(link, begin, begin + length, float(rate)) for link, begin, length, rate in found]
    wanted = []
    for link, most in enumerate(capacity):
        full = [
            time
            for time in range(30)
            for there in [[rate for at, begin, end, rate in found if at == link and begin <= time < end]]
            if len(there) > 1 and sum(there) > most
        ]
        wanted.append(min(full, default=None))
    assert overloads(capacity, *found) == wanted
