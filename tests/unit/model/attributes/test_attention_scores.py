from __future__ import annotations

import math

import numpy as np
import pytest

from simcluster.model import Region
from simcluster.model.attributes.attention_scores import Scores, alibi_slopes


def press(heads):
    """The function of the ALiBi paper's code (ofirpress/attention_with_linear_biases)."""

    def power_of_two(count):
        start = 2 ** (-(2 ** -(math.log2(count) - 3)))
        return [start * start**index for index in range(count)]

    if math.log2(heads).is_integer():
        return power_of_two(heads)
    closest = 2 ** math.floor(math.log2(heads))
    return power_of_two(closest) + press(2 * closest)[0::2][: heads - closest]


@pytest.mark.parametrize("heads", [1, 2, 3, 8, 12, 16, 20, 32, 40, 112])
def test_slopes_are_those_of_the_paper(heads):
    assert alibi_slopes(heads) == pytest.approx(press(heads))


@pytest.mark.parametrize("window", [0, 1, 3, 8, 20])
def test_masks_and_pairs(window):
    """A query sees itself and what is before it, as far as the window reaches; the count of pairs is that of
    the area, in which the diagonal is half inside."""
    length = 8
    rule = Scores(window=window)
    seen = np.isfinite(rule.masked(np.zeros((1, 1, 1, length, length)), Region({}))[0, 0, 0])
    for query in range(length):
        first = max(0, query - window + 1) if window else 0
        assert np.flatnonzero(seen[query]).tolist() == list(range(first, query + 1))
    reach = min(window or length, length)
    assert rule.pairs(length, length) == 2 * seen.sum() - reach
    assert Scores(causal=False).pairs(length, length) == 2 * length * length


def test_a_part_of_queries_and_heads_knows_where_it_is():
    rule = Scores(window=3, alibi=(4, 2))
    scores = np.random.default_rng(0).standard_normal((2, 4, 2, 6, 6))
    whole = rule.masked(scores, Region({}))
    part = rule.masked(scores[:, 2:, 1:, 3:], Region({"heads": 2, "group": 1, "seq": 3}))
    assert np.array_equal(part, whole[:, 2:, 1:, 3:])


def test_alibi_takes_the_distance_times_the_slope():
    found = Scores(alibi=(2, 1)).masked(np.zeros((1, 2, 1, 4, 4)), Region({}))
    for head, slope in enumerate(alibi_slopes(2)):
        assert found[0, head, 0, 3].tolist() == [-3 * slope, -2 * slope, -slope, 0]
