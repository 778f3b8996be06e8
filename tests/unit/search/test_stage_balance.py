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


def longest(times, layers):
    ends = np.cumsum(layers)
    return max(part.sum() for part in np.split(times, ends[:-1]))


@settings(max_examples=60)
@given(data=st.data())
def test_no_division_is_better(data):
    count = data.draw(LAYERS)
    num_stages = data.draw(st.integers(1, count))
    numbers = st.lists(st.integers(1, 9), min_size=count, max_size=count)
    times, held, kept = (np.array(data.draw(numbers), dtype=float) for _ in range(3))
    in_flight = np.arange(num_stages, 0, -1, dtype=float)
    limit = data.draw(st.integers(5, 120))

    def fits(layers):
        ends = np.cumsum(layers)[:-1]
        parts = zip(np.split(held, ends), np.split(kept, ends), in_flight, strict=True)
        return all(own.sum() + number * saved.sum() <= limit for own, saved, number in parts)

    possible = [layers for layers in every_division(count, num_stages) if fits(layers)]
    best = balanced_layers(times, num_stages, held, kept, in_flight, limit)
    if not possible:
        assert best == ()
        return
    assert best in possible
    assert longest(times, best) == min(longest(times, layers) for layers in possible)


def test_a_heavy_last_layer_gets_a_shorter_stage():
    times = np.array([1.0] * 7 + [3.0])
    nothing = np.zeros(8)
    assert balanced_layers(times, 2, nothing, nothing, np.ones(2), 1.0) == (5, 3)
    assert balanced_layers(times, 9, nothing, nothing, np.ones(9), 1.0) == ()
