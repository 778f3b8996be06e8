from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.model import Region
from simcluster.model.graph.counter_random import uniform

LABELS = ("batch", "seq", "hidden")


@given(
    st.tuples(*(st.integers(1, 6) for _ in LABELS)),
    st.tuples(*(st.integers(0, 5) for _ in LABELS)),
    st.integers(0, 2**31),
)
def test_a_part_has_the_numbers_of_the_whole(sizes, starts, seed):
    """Whatever part of a tensor a rank holds, it draws what one device draws for it."""
    whole = Region({}, seed=seed).uniform("here", LABELS, [a + b for a, b in zip(starts, sizes, strict=True)])
    region = Region(dict(zip(LABELS, starts, strict=True)), seed=seed)
    part = region.uniform("here", LABELS, sizes)
    assert np.array_equal(part, whole[tuple(slice(start, None) for start in starts)])


@pytest.mark.parametrize(
    "other",
    [
        Region({}, 1, 1, "layers.0", 0),
        Region({}, 2, 0, "layers.0", 0),
        Region({}, 1, 0, "layers.1", 0),
        Region({}, 1, 0, "layers.0", 1),
        Region({"seq": 1}, 1, 0, "layers.0", 0),
    ],
    ids=["seed", "step", "instance", "micro-batch", "place"],
)
def test_everything_that_names_a_number_changes_it(other):
    one = Region({}, 1, 0, "layers.0", 0).uniform("here", LABELS, (2, 3, 4))
    two = other.uniform("here", LABELS, (2, 3, 4))
    assert not np.isclose(one, two).any()
    assert not np.isclose(one, Region({}, 1, 0, "layers.0", 0).uniform("there", LABELS, (2, 3, 4))).any()


def test_the_numbers_are_uniform_and_not_correlated():
    drawn = uniform("key", [np.arange(300), np.arange(400)])
    assert drawn.min() >= 0
    assert drawn.max() < 1
    counts, _ = np.histogram(drawn, bins=20, range=(0, 1))
    expected = drawn.size / 20
    assert ((counts - expected) ** 2 / expected).sum() < 45  # chi-square of 19, beyond 0.1 %
    for one, two in (
        (drawn[1:], drawn[:-1]),
        (drawn[:, 1:], drawn[:, :-1]),
        (drawn, uniform("k", [np.arange(300), np.arange(400)])),
    ):
        assert abs(np.corrcoef(one.ravel(), two.ravel())[0, 1]) < 0.015
    assert len(np.unique(drawn)) == drawn.size


def test_a_scalar_has_a_number_too():
    assert uniform("key", []).shape == ()
