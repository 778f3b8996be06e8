"""Balanced layers against every division of them."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.search.bounds.stage_balance import balanced_layers

LAYERS = st.integers(1, 8)


def every_division(count, num_stages):
    for cuts in combinations(range(1, count), num_stages - 1):
        ends = (0, *cuts, count)
        yield tuple(end - begin for begin, end in pairwise(ends))


def longest(times, layers, slowness):
    parts = np.split(times, np.cumsum(layers)[:-1])
    return max(factor * part.sum() for part, factor in zip(parts, slowness, strict=True))


@settings(max_examples=60)
@given(data=st.data())
def test_no_division_is_better(data):
    count = data.draw(LAYERS)
    num_stages = data.draw(st.integers(1, count))
    numbers = st.lists(st.integers(1, 9), min_size=count, max_size=count)
    times, held, kept = (np.array(data.draw(numbers), dtype=float) for _ in range(3))
    in_flight = np.arange(num_stages, 0, -1, dtype=float)

    def of_stages(values):
        return np.array(data.draw(st.lists(values, min_size=num_stages, max_size=num_stages)))

    limits, slowness = of_stages(st.integers(5, 120)), of_stages(st.sampled_from([1.0, 2.0, 3.5]))

    def fits(layers):
        ends = np.cumsum(layers)[:-1]
        parts = zip(np.split(held, ends), np.split(kept, ends), in_flight, limits, strict=True)
        return all(own.sum() + number * saved.sum() <= limit for own, saved, number, limit in parts)

    possible = [layers for layers in every_division(count, num_stages) if fits(layers)]
    best = balanced_layers(times, held, kept, in_flight, slowness, limits)
    if not possible:
        assert best == ()
        return
    assert best in possible
    assert longest(times, best, slowness) == min(longest(times, layers, slowness) for layers in possible)


def test_a_heavy_last_layer_gets_a_shorter_stage():
    times = np.array([1.0] * 7 + [3.0])
    nothing = np.zeros(8)
    two, nine = np.ones(2), np.ones(9)
    assert balanced_layers(times, nothing, nothing, two, two, two) == (5, 3)
    assert balanced_layers(times, nothing, nothing, nine, nine, nine) == ()
    assert balanced_layers(times, nothing, nothing, two, np.array([4.0, 1.0]), two) == (2, 6)
