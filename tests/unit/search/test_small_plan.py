"""Small plans between two others are what planning gives."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from simcluster.search import PlanSpace
from simcluster.search.bounds import LayerCosts
from simcluster.search.bounds.layer_memory import LayerMemory
from simcluster.search.bounds.plan_texts import SCATTERED, WHOLE, PlanTexts
from simcluster.search.bounds.small_plans import SmallPlans
from tests.support.covering import quick
from tests.support.plan_spaces import random_scenario

SEEDS = quick(range(12), 0, later=range(5, 12))


def assert_holds_equally(memory: LayerMemory, other: LayerMemory) -> None:
    for name in ("layer_places", "kept", "parameters", "gradients", "states"):
        assert np.array_equal(getattr(memory, name), getattr(other, name)), name


def assert_costs_equally(costs: LayerCosts, other: LayerCosts) -> None:
    for phase, spans in costs.phases.items():
        for field in fields(spans):
            assert np.array_equal(getattr(spans, field.name), getattr(other.phases[phase], field.name))
    assert np.array_equal(costs.scattered, other.scattered)
    assert costs.slowness == other.slowness


@pytest.mark.parametrize("seed", SEEDS)
def test_a_micro_batch_between_two_costs_what_its_plan_says(seed):
    space = PlanSpace.of(random_scenario(seed), ["mesh", "micro_batch", "recompute"])
    for mesh in list({choice.mesh: None for choice in space.plans})[:2]:
        choices = [choice for choice in space.plans if choice.mesh == mesh and choice.micro_batch == 1]
        for choice in choices[:2]:
            middle = replace(choice, micro_batch=4, optimizer_sharding=WHOLE)
            texts = PlanTexts(space.scenario)
            between, planned = SmallPlans(texts, micro_batches=(1, 8)), SmallPlans(texts)
            costs = planned.costs(middle)
            if isinstance(costs, LayerCosts):
                assert_costs_equally(between.costs(middle), costs)
                assert_holds_equally(between.memory(middle), planned.memory(middle))
                # The two ends were planned, and the one between them was not.
                assert between.num_planned == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_kept_does_not_depend_on_what_is_sharded_nor_shrinks_with_the_micro_batch(seed):
    space = PlanSpace.of(random_scenario(seed), ["mesh", "recompute"])
    for choice in space.plans[:: max(1, len(space.plans) // 4)]:
        small = SmallPlans(PlanTexts(space.scenario))
        memories = [
            small._memory(replace(choice, micro_batch=micro_batch, optimizer_sharding=sharding))
            for micro_batch, sharding in ((1, WHOLE), (1, SCATTERED), (8, WHOLE))
        ]
        if all(isinstance(memory, LayerMemory) for memory in memories):
            whole, scattered, larger = memories
            assert np.array_equal(whole.kept, scattered.kept)
            assert np.all(whole.kept <= larger.kept)
            assert np.array_equal(whole.parameters, larger.parameters)


@pytest.mark.thorough
def test_plans_that_share_a_sharded_model_are_those_made_alone():
    space = PlanSpace.of(random_scenario(0), ["mesh", "recompute", "optimizer_sharding"])
    texts = PlanTexts(space.scenario)
    together = SmallPlans(texts)
    for choice in space.plans:
        shared = together.costs(choice)
        alone = SmallPlans(texts).costs(choice)
        if isinstance(alone, LayerCosts):
            assert_costs_equally(shared, alone)


def test_plans_of_different_instructions_have_nothing_between():
    space = PlanSpace.of(random_scenario(0), ["mesh", "recompute"])
    plans = SmallPlans(PlanTexts(space.scenario))
    plain, again = (
        next(choice for choice in space.plans if choice.recompute == recompute)
        for recompute in ("{}", '{"layers": "all"}')
    )
    small, large = plans._small_plan(plain), plans._small_plan(replace(again, micro_batch=8))
    assert small.between(large, 4) is None
