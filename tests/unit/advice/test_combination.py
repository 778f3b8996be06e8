"""What gains, and how changes are put together, with trials that are made up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.advice.combination import after, clash, gains, rank, together
from simcluster.analysis import MemoryUse
from simcluster.tuning import Trial

CAPACITY = 1000


def trial(step, needed=500, key="key", refused=""):
    return Trial((key,), ((key, "1"),), step, MemoryUse(needed, 0, CAPACITY), refused)


def present(step, needed=500):
    """The plan as it is."""
    return Trial((), (), step, MemoryUse(needed, 0, CAPACITY))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((10.0, 500), (9.0, 900), True),  # faster, and it fits
        ((10.0, 500), (9.0, 1100), False),  # faster, and it does not
        ((10.0, 500), (9.96, 500), False),  # as fast, but for less than simulations are exact to
        ((10.0, 500), (10.0, 400), True),  # as fast, with less memory
        ((10.0, 500), (10.5, 100), False),  # slower, and memory was enough
        ((10.0, 1100), (20.0, 900), True),  # slower, but it fits
        ((10.0, 1100), (9.0, 1200), False),  # faster, and lacks more
        ((10.0, 1500), (20.0, 1200), True),  # lacks less
    ],
)
def test_what_gains(before, after, expected):
    assert gains(trial(*before), trial(*after)) is expected


def test_what_is_impossible_gains_nothing():
    assert not gains(trial(10.0), trial(1.0, 1, refused="no"))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("parallel.mesh", "parallel.mesh", True),
        ("parallel.recompute", "parallel.recompute.layers", True),
        ("parallel.recompute.layers", "parallel.recompute", True),
        ("parallel.mesh", "parallel.mesher", False),
        ("training.micro_batch", "parallel.mesh", False),
    ],
)
def test_changes_of_one_key_clash(one, other, expected):
    assert clash(((one, "1"),), ((other, "2"),)) is expected


def test_later_changes_replace_what_they_set_as_a_whole():
    before = (("parallel.mesh", "a"), ("parallel.recompute.layers", "b"), ("training.micro_batch", "1"))
    later = (("parallel.recompute", "c"), ("parallel.mesh.data", "4"))
    assert after(before, later) == (("parallel.mesh", "a"), ("training.micro_batch", "1"), *later)


class Runs:
    """Step times by the keys that were changed; everything else takes a second less for each key."""

    def __init__(self, known=None):
        self.known, self.tried = known or {}, []

    def __call__(self, kinds, changes):
        keys = tuple(key for key, _ in changes)
        self.tried.append(keys)
        return Trial(
            tuple(kinds), changes, self.known.get(keys, 10.0 - len(keys)), MemoryUse(500, 0, CAPACITY)
        )


def test_the_best_comes_first_and_what_does_not_help_is_left_out():
    runs = Runs({("b", "a"): 8.5, ("b", "c"): 7.0})
    best = together(present(10.0), [trial(9.0, key="a"), trial(8.0, key="b"), trial(9.5, key="c")], runs)
    assert runs.tried == [("b", "a"), ("b", "c")]
    assert (best.kinds, best.step) == (("b", "c"), 7.0)


def test_nothing_gains():
    plan = present(10.0)
    assert together(plan, [trial(11.0), trial(5.0, 1200), trial(1.0, refused="no")], Runs()) is plan


def test_what_sets_the_same_key_is_not_put_together():
    runs = Runs()
    best = together(present(10.0), [trial(9.0, key="a"), trial(8.0, key="a")], runs)
    assert not runs.tried and best.step == 8.0


def test_what_is_only_faster_counts_once_the_plan_fits():
    runs = Runs({("memory", "speed"): 6.0})
    best = together(present(10.0, 1100), [trial(12.0, 900, "memory"), trial(7.0, 1200, "speed")], runs)
    assert best.kinds == ("memory", "speed") and best.fits


@given(
    st.tuples(st.floats(1, 20), st.integers(1, 2000)),
    st.lists(st.tuples(st.floats(1, 20), st.integers(1, 2000)), max_size=6),
    st.data(),
)
def test_what_is_put_together_is_never_worse(figures, others, data):
    """Whatever combinations take: the result ranks no worse than the plan as it is, but for equal times."""

    def run(kinds, changes):
        step, needed = data.draw(st.tuples(st.floats(1, 20), st.integers(1, 2000)))
        return Trial(tuple(kinds), changes, step, MemoryUse(needed, 0, CAPACITY))

    before = present(*figures)
    best = together(before, [trial(*other, f"key{n}") for n, other in enumerate(others)], run)
    assert rank(best)[1] <= rank(before)[1]
    if before.fits:
        assert best.fits and best.step <= before.step * 1.005**7
    assert len(dict(best.changes)) == len(best.changes)
