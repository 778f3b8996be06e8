"""Strategies under a memory limit, and without one, against an exact integer programme."""

from __future__ import annotations

import itertools

import highspy
import numpy as np
import pytest

from simcluster.plan.auto.memory_limit import LimitedChoice, NothingFits, best_within
from tests.support.searches import every_choice, random_problem, reducible_edges

EPSILON = 0.1


def integer_programme(problem, solver, capacity):
    """The least objective of a choice within so many bytes, by HiGHS; None if there is none.

    A binary for every strategy of an operator, and one for every pair of an edge, tied to these.
    """
    model = highspy.Highs()
    model.silent()
    chosen = {
        (vertex, place): model.addBinary() for vertex, size in problem.sizes.items() for place in range(size)
    }
    for vertex, size in problem.sizes.items():
        model.addConstr(sum(chosen[vertex, place] for place in range(size)) == 1)
    cost, memory = 0, 0
    for variables, table in problem.tables:
        objective = solver.objectives[id(table)]
        for places in itertools.product(*(range(problem.sizes[vertex]) for vertex in variables)):
            if len(variables) == 1:
                used = chosen[variables[0], places[0]]
            else:
                used = model.addVariable(lb=0, ub=1)
                ends = [chosen[end] for end in zip(variables, places, strict=True)]
                model.addConstr(used >= sum(ends) - 1)
                for end in ends:
                    model.addConstr(used <= end)
            cost += float(objective[places]) * used
            memory += float(table.memory[places]) * used
    model.addConstr(memory <= capacity)
    model.setOptionValue("mip_rel_gap", 1e-9)
    model.minimize(cost)
    if model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return model.getObjectiveValue()


@pytest.mark.parametrize("seed", range(4))
def test_without_a_limit_that_binds_the_answer_is_the_best(seed):
    rng = np.random.default_rng(seed)
    problem, solver = random_problem(rng, 8, 4, reducible_edges(rng, 8))
    answer = best_within(problem, 1e12, solver, EPSILON)
    assert isinstance(answer, LimitedChoice)
    best = integer_programme(problem, solver, 1e12)
    assert answer.cost == pytest.approx(best, rel=1e-6)
    assert answer.bound == answer.cost


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tightness", [0.02, 0.3])
def test_with_one_it_is_within_epsilon_of_it(seed, tightness):
    """On any graph, whether or not MindSpore's rules reduce it."""
    rng = np.random.default_rng(100 + seed)
    count = 6
    pairs = [(a, b) for b in range(count) for a in range(b)]
    edges = [pair for pair in pairs if rng.random() < 0.5]
    problem, solver = random_problem(rng, count, 4, edges)
    memories = sorted(memory for _, memory in every_choice(problem, solver))
    capacity = memories[int(tightness * len(memories))]
    answer = best_within(problem, capacity, solver, EPSILON)
    assert isinstance(answer, LimitedChoice)
    best = integer_programme(problem, solver, capacity)
    assert best is not None
    assert problem.memory_of(answer.chosen) <= capacity
    assert answer.cost == pytest.approx(solver.cost_of(problem, answer.chosen))
    assert best * (1 - 1e-6) <= answer.cost <= best * (1 + EPSILON)
    assert answer.bound <= best * (1 + 1e-6)


def test_short_lists_are_worse_and_the_bound_tells():
    """enable_algo_approxi: at most 1 / epsilon costs in a list, and no promise but the bound."""
    worse = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        problem, solver = random_problem(rng, 7, 4, reducible_edges(rng, 7))
        memories = sorted(memory for _, memory in every_choice(problem, solver))
        capacity = memories[len(memories) // 50]
        exact = best_within(problem, capacity, solver, 0.001)
        short = best_within(problem, capacity, solver, 0.9, short_lists=True)
        assert isinstance(exact, LimitedChoice)
        assert isinstance(short, LimitedChoice)
        assert problem.memory_of(short.chosen) <= capacity
        assert short.cost >= exact.cost * (1 - 0.001)
        assert short.bound <= exact.cost
        worse += short.cost > exact.cost * 1.001
    assert worse, "lists of one or two entries lose something"


def test_what_does_not_fit_says_how_much_it_needs():
    rng = np.random.default_rng(7)
    problem, solver = random_problem(rng, 5, 3, reducible_edges(rng, 5))
    least = min(memory for _, memory in every_choice(problem, solver))
    assert best_within(problem, least - 1, solver, EPSILON) == NothingFits(least)
    exactly = best_within(problem, least, solver, EPSILON)
    assert isinstance(exactly, LimitedChoice)
    assert problem.memory_of(exactly.chosen) == least


@pytest.mark.exhaustive
def test_a_thousand_random_graphs_against_the_integer_programme():
    """Half of them reducible by MindSpore's rules, half of any shape; half with a limit that binds."""
    for seed in range(1000):
        rng = np.random.default_rng(10_000 + seed)
        count = int(rng.integers(3, 7))
        pairs = [(a, b) for b in range(count) for a in range(b)]
        edges = reducible_edges(rng, count) if seed % 2 else [pair for pair in pairs if rng.random() < 0.6]
        problem, solver = random_problem(rng, count, 4, edges)
        memories = sorted(memory for _, memory in every_choice(problem, solver))
        binds = seed % 4 < 2
        capacity = memories[int(rng.random() * 0.4 * len(memories))] if binds else memories[-1]
        answer = best_within(problem, capacity, solver, EPSILON)
        assert isinstance(answer, LimitedChoice)
        best = integer_programme(problem, solver, capacity)
        assert best is not None
        assert problem.memory_of(answer.chosen) <= capacity
        assert best * (1 - 1e-6) <= answer.cost <= best * (1 + EPSILON)
        if not binds:
            assert answer.cost == pytest.approx(best, rel=1e-6)
            assert answer.bound == answer.cost
