from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.plan.execution.bucket_partition import ReadyTimes

TIMES = st.integers(0, 60)


@st.composite
def lines(draw, most=8):
    """Lines with a latency and a rate, or with any times at all, which need not even grow with the size."""
    count = draw(st.integers(1, most))
    ready = sorted(draw(st.lists(TIMES, min_size=count, max_size=count)))
    updates = draw(st.lists(TIMES, min_size=count, max_size=count))
    busy, by_first = draw(TIMES), draw(st.booleans())
    if draw(st.booleans()):
        latency, sizes = draw(TIMES), draw(st.lists(TIMES, min_size=count, max_size=count))
        return ReadyTimes(
            ready, updates, busy, lambda begin, end: 1 + latency + sum(sizes[begin:end]), by_first
        )
    table = draw(st.lists(st.lists(TIMES, min_size=count, max_size=count), min_size=count, max_size=count))
    return ReadyTimes(ready, updates, busy, lambda begin, end: 1 + table[begin][end - 1], by_first)


@given(lines())
@settings(max_examples=40)
def test_no_partition_ends_earlier(line):
    count = len(line.ready)
    every = [ends for size in range(count) for ends in combinations(range(1, count), size)]
    assert line.finish(line.best_ends()) == min(map(line.finish, every))


@settings(max_examples=20)
@given(lines(most=24))
def test_it_is_never_worse_than_one_bucket_none_or_pairs(line):
    count = len(line.ready)
    best = line.finish(line.best_ends())
    for step in (1, 2, 5, count):
        assert best <= line.finish(range(step, count, step))


def test_what_travels_beside_the_backward_is_cut_and_the_rest_is_not():
    """Three gradients that are ready early cost nothing; the last two together save a latency."""
    line = ReadyTimes([10, 20, 30, 100, 100], [0] * 5, 100, lambda begin, end: 10 + 2 * (end - begin))
    assert line.finish(line.best_ends()) == 100 + 10 + 2 * 2
    assert line.best_ends() == (3,)


def test_updates_run_beside_later_buckets():
    """With long updates the first bucket is small, so that they start early."""
    line = ReadyTimes([0] * 4, [50] * 4, 0, lambda begin, end: 1 + 20 * (end - begin))
    assert line.best_ends()[0] == 1
    assert line.finish(line.best_ends()) == 21 + 4 * 50


def test_a_bucket_of_weights_travels_when_its_first_may():
    """Weights that may travel one after another do so at once with the first, if that costs no more."""
    times, needed = [0, 100, 200], [10, 10, 10]
    weights = ReadyTimes(times, needed, 0, lambda begin, end: 5 * (end - begin), by_first=True)
    assert weights.best_ends() == ()
    assert weights.finish(()) == 15 + 30
    gradients = ReadyTimes(times, needed, 0, lambda begin, end: 5 * (end - begin))
    assert gradients.finish(()) == 200 + 15 + 30
    assert gradients.finish(gradients.best_ends()) == 200 + 5 + 10
