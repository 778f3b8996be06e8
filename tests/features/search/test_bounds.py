"""Bounds are bounds: no plan is faster or needs less memory than its bound says."""

from __future__ import annotations

import random

import pytest

from simcluster.search import PlanFigures, PlanSpace
from simcluster.search.bounds import PlanBounds, Refusal
from simcluster.search.planner import SharedScenario, simulate_plan
from tests.support.plan_spaces import ALL_KEYS, mixed_scenario, random_scenario

PLANS = 3
"""Plans of a space that are looked at."""

SEEDS = [
    *range(2),
    *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 9)),
    *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(9, 350)),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_plans_take_at_least_what_their_bounds_say(seed):
    space = PlanSpace.of(random_scenario(seed), ALL_KEYS)
    bounds = PlanBounds(space.scenario)
    for choice in random.Random(seed).sample(space.plans, min(PLANS, len(space.plans))):
        bound, figures = (
            bounds.of(choice),
            simulate_plan((SharedScenario.of(space.scenario), space.changes_of(choice))),
        )
        if isinstance(bound, Refusal) or figures.refused:
            # What a bound refuses must be impossible; the planner may know more reasons.
            assert figures.refused, (choice.text, bound)
            continue
        assert bound.time_ns <= round(figures.step_time_s * 1e9), choice.text
        assert bound.memory <= figures.memory, choice.text


@pytest.mark.parametrize("shares", [[5, 5, 3, 3], [3, 3, 1, 1], [1, 1, 3, 3]])
def test_plans_with_unequal_shares_take_at_least_what_their_bounds_say(shares):
    space = PlanSpace.of(mixed_scenario(batch_shares={"data": shares}), ["batch_shares"])
    bound = PlanBounds(space.scenario).of(space.base)
    figures = simulate_plan((SharedScenario.of(space.scenario), space.changes_of(space.base)))
    assert 0 < bound.time_ns <= round(figures.step_time_s * 1e9)
    assert 0 < bound.memory <= figures.memory


def test_bounds_are_near(quickstart_space):
    bounds = PlanBounds(quickstart_space.scenario)
    bound = bounds.of(quickstart_space.base)
    figures = simulate_plan((SharedScenario.of(quickstart_space.scenario), ()))
    assert isinstance(figures, PlanFigures)
    assert bound.time_ns > 0.95e9 * figures.step_time_s
    assert bound.memory > 0.9 * figures.memory


@pytest.fixture(scope="module")
def quickstart_space():
    from simcluster.scenario import Scenario

    return PlanSpace.of(Scenario.load("scenarios/quickstart.yaml"))
