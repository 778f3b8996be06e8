"""Bounds are bounds: no plan is faster or needs less memory than its bound says."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from simcluster.search import PlanFigures, PlanSpace
from simcluster.search.bounds import PlanBounds, Refusal
from simcluster.search.planner import SharedScenario, simulate_plan
from tests.support.plan_spaces import ALL_KEYS, UNUSUAL, mixed_scenario, random_scenario, unusual_scenario

PLANS = 3
"""Plans of a space that are looked at."""

SEEDS = [
    *range(2),
    *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 5)),
    *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(5, 350)),
]

QUICK = ("slices", "unequal routing")


@pytest.mark.parametrize("seed", SEEDS)
def test_plans_take_at_least_what_their_bounds_say(seed):
    assert_bounds_hold(PlanSpace.of(random_scenario(seed), ALL_KEYS), seed)


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        *(pytest.param(kind, 0, marks=() if kind in QUICK else pytest.mark.thorough) for kind in UNUSUAL),
        *(
            pytest.param(kind, seed, marks=pytest.mark.exhaustive)
            for kind in UNUSUAL
            for seed in range(1, 40)
        ),
    ],
)
def test_plans_of_which_less_is_known_have_bounds_too(kind, seed):
    keys = ["mesh", "micro_batch", "recompute", "optimizer_sharding"]
    assert_bounds_hold(PlanSpace.of(unusual_scenario(kind, seed), keys), seed)


def assert_bounds_hold(space, seed) -> None:
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
        assert 0 < bound.time_ns <= round(figures.step_time_s * 1e9), choice.text
        assert bound.memory <= figures.memory, choice.text


def test_a_last_stage_without_layers_has_a_bound():
    """Of six layers over eight virtual stages, the first and the last have none."""
    space = PlanSpace.of(random_scenario(34), ["chunks"])
    mesh = (("pipeline", 4), ("data", space.setting.num_devices // 4))
    choice = replace(space.base, mesh=mesh, schedule="interleaved", chunks=2)
    bound = PlanBounds(space.scenario).of(choice)
    figures = simulate_plan((SharedScenario.of(space.scenario), space.changes_of(choice)))
    assert 0 < bound.time_ns <= round(figures.step_time_s * 1e9)
    assert 0 < bound.memory <= figures.memory


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
