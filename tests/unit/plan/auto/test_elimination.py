"""Eliminations against all choices, under the names that MindSpore has for them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simcluster.plan.auto.elimination as module
from simcluster.plan.auto.elimination import Elimination, EliminationMemory, TableTooLargeError
from tests.support.searches import every_choice, random_problem


def solved(edges, num_operators=None, seed=0, most=3):
    rng = np.random.default_rng(seed)
    count = num_operators or 1 + max(max(edge) for edge in edges)
    problem, solver = random_problem(rng, count, most, edges)
    least, chosen = solver.solve(problem, 1.0, 0.0)
    return problem, solver, least, chosen


@given(
    count=st.integers(1, 6),
    pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=80, deadline=None)
def test_any_graph_gets_its_least_cost(count, pairs, seed):
    edges = [(low, high) for low, high in map(sorted, pairs) if low < high < count]
    problem, solver, least, chosen = solved(edges, count, seed)
    best = min(cost for cost, _ in every_choice(problem, solver))
    assert least == pytest.approx(best)
    assert solver.cost_of(problem, chosen) == pytest.approx(best)


@pytest.mark.parametrize(
    ("sizes", "edges", "first"),
    [
        ([1, 1], [(0, 1)], "merge"),
        ([3, 1, 1], [(0, 1), (1, 2)], "contract"),
        ([2, 1, 2, 9], [(0, 1), (1, 2), (0, 3), (2, 3)], "operator"),
        ([1, 1, 1, 1], [(0, 1), (0, 2), (1, 3), (2, 3)], "source"),
        ([1, 1, 1], [(0, 1), (0, 2), (1, 2)], "triangle"),
        ([1] * 5, [(a, b) for b in range(5) for a in range(b)], "star"),
    ],
)
def test_what_is_done_first_has_mindspore_s_name(sizes, edges, first):
    """The operator with the smallest table goes first, of equals the first one."""
    elimination = Elimination(dict(enumerate(sizes)))
    for a, b in edges:
        elimination.add((a, b), np.zeros((sizes[a], sizes[b])))
    elimination.run()
    assert next(iter(elimination.rules)) == first


def test_parallel_edges_are_added():
    elimination = Elimination({0: 2, 1: 2})
    elimination.add((0, 1), np.array([[0.0, 5], [5, 5]]))
    elimination.add((0, 1), np.array([[9.0, 1], [5, 5]]))
    assert elimination.rules["edge"] == 1
    assert elimination.run() == (6.0, {1: 1, 0: 0})


def test_equal_parts_are_eliminated_once():
    """A chain of equal operators: as many different eliminations as it takes to double, not one for each."""
    rng = np.random.default_rng(3)
    own, edge = rng.random(4), rng.random((4, 4))
    memory = EliminationMemory()
    for _ in range(2):
        elimination = Elimination(dict.fromkeys(range(40), 4), memory)
        for vertex in range(40):
            elimination.add((vertex,), own)
        for vertex in range(39):
            elimination.add((vertex, vertex + 1), edge)
        least, chosen = elimination.run()
        known = len(memory.minima)
    assert len(memory.minima) == known, "the second graph is the first again"
    path = [chosen[vertex] for vertex in range(40)]
    total = own[path].sum() + sum(edge[a, b] for a, b in itertools.pairwise(path))
    assert least == pytest.approx(total)


def test_large_tables_are_minimised_row_by_row(monkeypatch):
    edges = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]
    _, _, least, chosen = solved(edges, seed=5)
    monkeypatch.setattr(module, "_AT_ONCE", 0)
    _, _, again, same = solved(edges, seed=5)
    assert (again, same) == (least, chosen)


def test_a_table_that_is_too_large_names_the_operator(monkeypatch):
    monkeypatch.setattr(module, "MOST_ENTRIES", 10)
    with pytest.raises(TableTooLargeError) as caught:
        solved([(a, b) for b in range(6) for a in range(b)], most=3, seed=2)
    assert caught.value.entries > 10


def test_two_parts_that_share_nothing_add_up():
    problem, solver, least, _ = solved([(0, 1), (2, 3)])
    assert least == pytest.approx(min(cost for cost, _ in every_choice(problem, solver)))
