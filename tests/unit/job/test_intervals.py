"""Young's and Daly's formulas."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.job import best_interval, daly_interval, expected_wall_time, expected_waste, young_interval

SAVES, MEANS = st.floats(0.1, 1000), st.floats(100, 1e7)


def test_against_numbers_by_hand():
    assert young_interval(40, 11_124) == pytest.approx(math.sqrt(2 * 40 * 11_124))
    ratio = 40 / (2 * 11_124)
    by_hand = math.sqrt(2 * 40 * 11_124) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - 40
    assert daly_interval(40, 11_124) == pytest.approx(by_hand)
    assert daly_interval(300, 100) == 100


@given(SAVES, MEANS, st.floats(0, 1000))
def test_the_best_interval_is_the_best(save, mean, restart):
    best = best_interval(save, mean)
    least = expected_wall_time(best, save, restart, mean)
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2):
        assert expected_wall_time(best * factor, save, restart, mean) >= least * (1 - 1e-9)


@given(SAVES, MEANS, st.floats(0, 1000))
def test_the_best_interval_is_no_shorter_than_a_checkpoint_takes_to_be_written(save, mean, background):
    best = best_interval(save, mean, background)
    least = expected_wall_time(best, save, 0.0, mean, background)
    assert best >= min(background, mean)
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2):
        assert expected_wall_time(best * factor, save, 0.0, mean, background) >= least * (1 - 1e-9)


@given(st.floats(0.1, 10), st.floats(1e4, 1e7))
def test_formulas_come_near_it_where_failures_are_rare(save, mean):
    best = best_interval(save, mean)
    assert daly_interval(save, mean) == pytest.approx(best, rel=0.01)
    assert young_interval(save, mean) == pytest.approx(best, rel=0.05)


def test_waste_to_first_order():
    save, restart, mean, interval = 1.0, 5.0, 1e6, 1400.0
    first_order = save / interval + (interval / 2 + restart) / mean
    assert expected_waste(interval, save, restart, mean) == pytest.approx(first_order, rel=0.01)
    assert expected_waste(1e9, save, restart, 1e3) == 1.0
    beside = save / interval + (interval / 2 + restart + 300.0) / mean
    assert expected_waste(interval, save, restart, mean, 300.0) == pytest.approx(beside, rel=0.01)
