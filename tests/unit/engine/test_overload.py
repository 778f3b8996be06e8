from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simcluster.engine.overload import Demand, Overload, first_overload, with_instants


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
@settings(max_examples=40)
def test_against_looking_at_every_instant(found, capacity):
    wanted = None
    for time in range(21):
        for link in range(4):
            rates = [rate for at, start, end, rate in found if rate and at == link and start <= time < end]
            level = sum(rates)
            if level > capacity[link] and wanted is None:
                wanted = Overload(time, link, level)
    assert first_overload(demand(*found), np.array(capacity)) == wanted


def test_what_takes_no_nanosecond_meets_who_is_there():
    """It shares the link with who is on it then, but neither with who is gone nor with its own next phase."""
    there = (0, 0, 10, 1.0)
    for at, wanted in ((9, Overload(9, 0, 2.0)), (10, None), (0, Overload(0, 0, 2.0))):
        found = with_instants(np.array([0, 1]), demand(there, (0, at, at, 1.0)))
        assert first_overload(found, np.array([1.0])) == wanted
    phases = [(0, 3, 3, 1.0), (0, 3, 3, 0.5), (0, 3, 4, 1.0), (0, 4, 4, 1.0)]
    assert first_overload(with_instants(np.zeros(4, dtype=np.int64), demand(*phases)), np.ones(1)) is None


@given(st.lists(st.integers(0, 9), min_size=20, max_size=20), rows)
@settings(max_examples=40)
def test_instants_against_looking_at_every_one(tracks, found):
    """At every instant a track takes the most that it asks for then."""
    given_rows = [(link, start, max(start, end), rate) for link, start, end, rate in found]
    track = np.array(tracks[: len(found)], dtype=np.int64)
    asked = {}
    for owner, (link, start, end, rate) in zip(tracks, given_rows, strict=False):
        for time in range(start, max(end, start + 1)):
            asked.setdefault((owner, link, time), []).append((rate, start, end > start))
    # One row of a track is over before the next one starts.
    assume(all(len({start for _, start, _ in each}) == 1 for each in asked.values()))
    assume(all(sum(lasts for *_, lasts in each) <= 1 for each in asked.values()))
    level = {}
    for (_, link, time), each in asked.items():
        level[link, time] = level.get((link, time), 0.0) + max(rate for rate, *_ in each)
    over = sorted((time, link) for (link, time), rate in level.items() if rate > 1)
    overload = first_overload(with_instants(track, demand(*given_rows)), np.ones(4))
    assert (overload and (overload.time, overload.link)) == (over[0] if over else None)
