"""Halving, climbing and trying in order: what they find, and with how many trials."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.tuning.searches import Bisection, bisect, climb, try_in_order


@dataclass(frozen=True)
class Tried:
    number: int
    fits: bool


@given(st.integers(0, 20), st.integers(1, 200), st.data())
def test_bisection_finds_the_first_that_fits_with_as_few_trials_as_halving_takes(low, width, data):
    first = data.draw(st.integers(low + 1, low + width))
    asked = []

    def fits(position):
        asked.append(position)
        return position >= first

    assert bisect(low, low + width, fits) == first
    assert len(asked) == len(set(asked)) <= max(width - 1, 0).bit_length()
    assert all(low < position < low + width for position in asked)


@given(st.integers(2, 200), st.data())
def test_a_guess_costs_two_trials_if_it_is_right_and_two_more_than_halving_if_it_is_wrong(high, data):
    first, guess = (data.draw(st.integers(1, high)) for _ in range(2))
    search = Bisection(0, high, guess)
    trials = 0
    while not search.done:
        search.tell(search.position >= first)
        trials += 1
    assert search.high == first
    assert trials <= (2 if guess == first else 2 + high.bit_length())


def test_what_is_known_is_not_tried():
    assert Bisection(3, 4).done
    assert bisect(0, 1, lambda position: pytest.fail("nothing is open")) == 1


def test_a_climb_ends_where_no_step_improves():
    heights = [0, 3, 5, 4, 9]

    def step(place):
        return max((place, min(place + 1, len(heights) - 1)), key=heights.__getitem__)

    assert climb(0, step) == 2
    assert climb(4, step) == 4


def test_trials_are_made_in_order_up_to_the_first_that_fits_and_watched_one_by_one():
    made, watched = [], []

    def trials():
        for number in range(5):
            made.append(number)
            yield Tried(number, fits=number == 2)

    tried = try_in_order(trials(), watched.append)
    assert [trial.number for trial in tried] == made == [0, 1, 2]
    assert watched == tried
    assert try_in_order(Tried(number, fits=False) for number in range(2)) == [
        *(Tried(0, fits=False), Tried(1, fits=False))
    ]
