"""Small plans between two others are what planning gives."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from simcluster.search import PlanSpace
from simcluster.search.bounds import LayerCosts, PlanBounds
from tests.support.plan_spaces import random_scenario

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 12))]


def assert_equal(costs: LayerCosts, other: LayerCosts) -> None:
    for name in ("kept", "parameters", "gradients", "states"):
        assert np.array_equal(getattr(costs, name), getattr(other, name)), name
    for phase, spans in costs.phases.items():
        for field in fields(spans):
            assert np.array_equal(getattr(spans, field.name), getattr(other.phases[phase], field.name))
    assert costs.slowness == other.slowness


@pytest.mark.parametrize("seed", SEEDS)
def test_a_micro_batch_between_two_costs_what_its_plan_says(seed):
    space = PlanSpace.of(random_scenario(seed), ["mesh", "micro_batch", "recompute"])
    for mesh in list({choice.mesh: None for choice in space.plans})[:2]:
        choices = [choice for choice in space.plans if choice.mesh == mesh and choice.micro_batch == 1]
        for choice in choices[:2]:
            bounds = PlanBounds(space.scenario, micro_batches=(1, 8))
            middle = replace(choice, micro_batch=4)
            between, planned = bounds.costs(middle), PlanBounds(space.scenario).costs(middle)
            if isinstance(planned, LayerCosts):
                assert isinstance(between, LayerCosts)
                assert_equal(between, planned)
                # The two ends were planned, and the one between them was not.
                assert bounds.num_small_plans == 2


def test_plans_of_different_instructions_have_nothing_between():
    space = PlanSpace.of(random_scenario(0), ["mesh", "recompute"])
    bounds = PlanBounds(space.scenario)
    plain, again = (
        next(choice for choice in space.plans if choice.recompute == recompute)
        for recompute in ("{}", '{"layers": "all"}')
    )
    small, large = bounds._small_plan(plain), bounds._small_plan(replace(again, micro_batch=8))
    assert small.between(large, 4) is None
