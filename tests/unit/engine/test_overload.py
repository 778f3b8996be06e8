from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.engine.overload import Demand, Overload, first_overload


def demand(*rows):
    link, start, end, rate = zip(*rows, strict=True) if rows else ((), (), (), ())
    ints = (np.array(column, dtype=np.int64) for column in (link, start, end))
    return Demand(*ints, np.array(rate, dtype=np.float64))


def test_nothing_loads_nothing():
    assert first_overload(demand(), np.array([1.0])) is None


def test_what_ends_makes_room():
    rows = [(0, 0, 10, 1.0), (0, 10, 20, 1.0), (1, 5, 15, 1.0)]
    assert first_overload(demand(*rows), np.array([1.0, 1.0])) is None
    assert first_overload(demand(*rows, (0, 19, 30, 0.5)), np.array([1.0, 1.0])) == Overload(19, 0, 1.5)


def test_the_first_instant_and_the_lowest_link():
    rows = [(2, 3, 5, 1.0), (2, 4, 6, 1.0), (1, 0, 9, 1.0), (1, 4, 5, 1.0), (0, 7, 9, 3.0)]
    assert first_overload(demand(*rows), np.ones(3)) == Overload(4, 1, 2.0)


def test_one_may_fill_a_link_several_may_not():
    rows = [
        (0, 0, 10, 1.0),
        (0, 10, 20, 0.5),
        (0, 10, 20, 0.49),
        (0, 20, 30, 0.5),
        (1, 0, 9, 1.0),
        (1, 2, 9, 2.0),
    ]
    assert first_overload(demand(*rows), np.array([1.0, 3.0])) is None
    # Shares of which only rounding says whether they are less than they would be alone.
    shares = [(0, 30, 40, 1 / 7)] * 7
    assert first_overload(demand(*rows, *shares), np.array([1.0, 3.0])) == Overload(30, 0, pytest.approx(1.0))


def test_columns_of_different_lengths_are_refused():
    one, two = np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)
    with pytest.raises(ValueError, match="different lengths"):
        Demand(one, two, two, np.zeros(2))


rows = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(0, 20), st.integers(0, 4).map(float)),
    max_size=20,
)


@given(rows, st.lists(st.integers(0, 6).map(float), min_size=4, max_size=4))
def test_against_looking_at_every_instant(found, capacity):
    wanted = None
    for time in range(21):
        for link in range(4):
            rates = [rate for at, start, end, rate in found if rate and at == link and start <= time < end]
            level = sum(rates)
            if level > capacity[link] and wanted is None:
                wanted = Overload(time, link, level)
    assert first_overload(demand(*found), np.array(capacity)) == wanted
