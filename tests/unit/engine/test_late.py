"""Latencies that links add for a time: for as much of a wait as falls into it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.engine.communication.fabric import Late, Transfer

WINDOW = Late(1000, 2000, 300)


@pytest.mark.parametrize(
    ("begins", "taken"),
    [
        (0, 100),
        (900, 100),  # over as the window opens
        (950, 50 + 4 * 50),  # half of it inside, where all takes four times as long
        (1000, 400),
        (1600, 400),
        (1800, 200 + 50),  # half of it done by the end
        (1999, 1 + 99.75),
        (2000, 100),
    ],
)
def test_the_part_of_a_wait_inside_a_window_takes_longer(begins, taken):
    assert Transfer(100, (), (WINDOW,)).latency(begins) == round(taken)


def test_windows_add_up_and_what_is_for_good_is_there_all_along():
    transfer = Transfer(100, (), (WINDOW, Late(0, None, 100), Late(1200, 1300, 200)))
    assert transfer.latency(5000) == transfer.latency(1100, for_good=True) == 200
    assert transfer.latency(1400) == 500
    # 1 / 5 of the wait to 1200, of what is left 1 / 7 to 1300, and the rest at the pace before.
    assert transfer.latency(1100) == round(200 + (1 - 1 / 5 - 1 / 7) * 500)


def test_a_wait_across_a_whole_window():
    assert Transfer(10_000, (), (WINDOW,)).latency(0) == round(2000 + (1 - 0.1 - 1000 / 10_300) * 10_000)


def test_what_waits_for_nothing_else_is_late_inside_alone():
    for begins, taken in ((999, 0), (1000, 300), (1999, 1), (2000, 0)):
        assert Transfer(0, (), (WINDOW,)).latency(begins) == taken


lates = st.lists(
    st.builds(
        lambda begin, length, delay: Late(begin, None if length is None else begin + length, delay),
        st.integers(0, 5000),
        st.none() | st.integers(1, 3000),
        st.integers(0, 10**6),
    ),
    max_size=4,
)


@given(st.integers(0, 10**5), lates, st.integers(0, 8000), st.integers(0, 3000))
def test_what_begins_later_is_not_through_earlier(latency, late, begins, after):
    transfer = Transfer(latency, (), tuple(late))
    first, second = begins + transfer.latency(begins), begins + after + transfer.latency(begins + after)
    assert first <= second
    least, most = latency, latency + sum(each.delay for each in late)
    assert least <= transfer.latency(begins) <= most
