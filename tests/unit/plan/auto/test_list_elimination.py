"""Eliminations with lists of costs, against all choices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simcluster.plan.auto.list_elimination as module
from simcluster.plan.auto.list_elimination import ListElimination, ListsTooLongError
from tests.support.searches import every_choice, random_problem


@given(
    count=st.integers(1, 5),
    pairs=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6),
    seed=st.integers(0, 1000),
    epsilon=st.sampled_from([1e-6, 0.3]),
)
@settings(max_examples=40, deadline=None)
def test_the_best_that_fits_is_found_within_epsilon(count, pairs, seed, epsilon):
    edges = sorted({(low, high) for low, high in map(sorted, pairs) if low < high < count})
    problem, solver = random_problem(np.random.default_rng(seed), count, 3, edges)
    choices = every_choice(problem, solver)
    capacity = sorted(memory for _, memory in choices)[len(choices) // 3]
    best = min(cost for cost, memory in choices if memory <= capacity)
    chosen = ListElimination.of(problem, solver, epsilon, short=False).best(capacity)
    assert chosen is not None
    assert problem.memory_of(chosen) <= capacity
    assert best * (1 - 1e-9) <= solver.cost_of(problem, chosen) <= best * (1 + epsilon) * (1 + 1e-9)


def test_nothing_that_fits_is_no_choice():
    problem, solver = random_problem(np.random.default_rng(0), 3, 3, [(0, 1), (1, 2)])
    assert ListElimination.of(problem, solver, 0.1, short=False).best(1.0) is None


@pytest.mark.parametrize("limit", ["MOST_CELLS", "MOST_ENTRIES"])
def test_lists_that_would_take_too_long_are_not_made(monkeypatch, limit):
    problem, solver = random_problem(np.random.default_rng(0), 6, 3, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])
    monkeypatch.setattr(module, limit, 3)
    with pytest.raises(ListsTooLongError):
        ListElimination.of(problem, solver, 0.1, short=False).best(1e9)
