"""Spaces: which plans they have, and what they refuse."""

from __future__ import annotations

import math

import pytest

from simcluster.errors import ScenarioError
from simcluster.scenario import Scenario
from simcluster.search import PlanChoice, PlanSpace, search_keys
from tests.support.plan_spaces import small_scenario


@pytest.fixture(scope="module")
def small():
    return small_scenario(devices=8).changed([("training.global_batch", "32")])


def test_every_factorisation_of_the_devices_is_a_mesh(small):
    plans = PlanSpace.of(small, ["mesh"]).plans
    meshes = {plan.mesh for plan in plans}
    assert all(math.prod(size for _, size in mesh) == 8 for mesh in meshes)
    heads, layers = small.model.dimensions["heads"], small.model.num_layers
    wanted = {
        (stages, 8 // stages // tensor, tensor)
        for tensor in (1, 2, 4, 8)
        for stages in (1, 2, 4, 8)
        if tensor * stages <= 8 and heads % tensor == 0 and stages <= layers
    }
    assert {(plan.size("pipeline"), plan.size("data"), plan.size("tensor")) for plan in plans} == wanted


def test_micro_batches_divide_the_samples_of_a_rank(small):
    for plan in PlanSpace.of(small, ["mesh", "micro_batch"]).plans:
        assert (32 // plan.size("data")) % plan.micro_batch == 0


def test_no_recomputation_is_one_plan_however_it_is_written(small):
    written = small.changed([("parallel.recompute", "{layers: none}")])
    assert PlanSpace.of(written, ["recompute"]).plans == PlanSpace.of(small, ["recompute"]).plans


def test_values_that_are_written_are_the_only_ones(small):
    plans = PlanSpace.of(small, ["micro_batch=2", "recompute=all", "optimizer_sharding=1,3"]).plans
    assert {plan.micro_batch for plan in plans} == {2}
    assert {plan.recompute for plan in plans} == {'{"layers": "all"}'}
    assert {plan.optimizer_sharding for plan in plans} == {'{"zero": 1}', '{"zero": 3}'}


def test_what_the_scenario_says_is_tried_too(small):
    own = small.changed(
        [("parallel.recompute", '{operators: ["layers.*.mlp.*"]}'), ("parallel.optimizer_sharding", "fsdp")]
    )
    space = PlanSpace.of(own, ["recompute", "optimizer_sharding"])
    assert space.base in space.plans
    assert PlanSpace.of(own, ["recompute=none"]).plans[0].recompute == "{}"


def test_the_orders_of_axes_are_all_there(small):
    plans = PlanSpace.of(small, ["mesh", "axis_order"]).plans
    orders = {tuple(axis for axis, size in plan.mesh if size > 1) for plan in plans}
    assert {("data", "tensor"), ("tensor", "data")} <= orders
    assert len({plan.mesh for plan in plans}) == len(plans)


def test_a_plan_reads_as_the_scenario_that_it_changes(small):
    for plan in PlanSpace.of(small, ["mesh", "micro_batch", "chunks", "recompute"]).plans:
        changed = PlanSpace.of(small.changed(plan.changes()), ["mesh"])
        assert changed.base == plan


@pytest.mark.parametrize(
    ("over", "wanted"),
    [
        ("mehs", "no key 'mehs'"),
        ("mesh=2", "takes no values"),
        ("micro_batch=none", "'none' is not a whole number"),
        ("recompute=some", "'some' is none of its values"),
        ("micro_batch=3", "no plan on 8 devices"),
    ],
)
def test_what_is_no_space_is_refused(small, over, wanted):
    with pytest.raises(ScenarioError, match=wanted):
        _ = PlanSpace.of(small, [over]).plans


def test_schedules_that_a_plan_cannot_say_are_refused(small):
    written = small.changed(
        [("parallel.mesh", "{pipeline: 2, data: 4}"), ("parallel.schedule", "{stages: [[1, 1]]}")]
    )
    with pytest.raises(ScenarioError, match="by their kind, chunks, slices"):
        PlanSpace.of(written)


def test_a_shared_vocabulary_is_refused(small):
    written = small.changed(
        [("parallel.mesh", "{pipeline: 2, data: 4}"), ("parallel.schedule", "{vocabulary: two_barriers}")]
    )
    with pytest.raises(ScenarioError, match="share the vocabulary"):
        PlanSpace.of(written)


def test_slices_are_kept_with_their_schedule(small):
    sliced = small.changed(
        [("parallel.mesh", "{pipeline: 2, data: 4}"), ("parallel.schedule", "{kind: seqpipe, slices: 2}")]
    )
    plans = PlanSpace.of(sliced, ["schedule"])
    slices = {plan.schedule: plan.slices for plan in plans.plans}
    assert slices["seqpipe"] == 2
    assert slices["1f1b"] == 0
    changes = dict(plans.changes_of(plans.base))
    assert changes["parallel.schedule"] == "{kind: seqpipe, slices: 2}"
    assert "in 2 slices" in plans.base.text


def test_pairs_are_kept_by_schedules_that_have_them(small):
    paired = small.changed(
        [("parallel.mesh", "{pipeline: 2, data: 4}"), ("parallel.schedule", "{kind: 1f1b, pairs: true}")]
    )
    space = PlanSpace.of(paired, ["schedule", "chunks"])
    pairs = {plan.schedule: plan.pairs for plan in space.plans}
    assert pairs["1f1b"]
    assert pairs["interleaved"]
    assert not pairs["gpipe"]
    assert ("parallel.schedule", "{kind: 1f1b, pairs: true}") in space.changes_of(space.base)


def test_layers_of_stages_are_kept_for_as_many_stages(small):
    most = small.model.num_layers - 1
    uneven = small.changed(
        [
            ("parallel.mesh", "{pipeline: 2, data: 4}"),
            ("parallel.schedule", f"{{kind: 1f1b, stages: [{most}, 1]}}"),
        ]
    )
    plans = PlanSpace.of(uneven, ["mesh"]).plans
    assert {plan.stages for plan in plans if plan.num_stages == 2} == {(most, 1)}
    assert {plan.stages for plan in plans if plan.num_stages != 2} == {()}


def test_inference_is_not_searched():
    with pytest.raises(ScenarioError, match="plans of training are searched"):
        PlanSpace.of(Scenario.load("scenarios/llama3-70b-inference-8-h100.yaml"))


def test_strategies_are_not_searched_for_every_plan(small):
    auto = small.changed([("parallel.mode", "auto")])
    with pytest.raises(ScenarioError, match="another search"):
        PlanSpace.of(auto)


def test_every_key_says_what_it_tries():
    for kind, key in search_keys().items():
        assert key.kind == kind
        assert key.title


def test_a_plan_in_a_line():
    choice = PlanChoice((("pipeline", 4), ("data", 2)), 1, "interleaved", 2, recompute='{"layers": "all"}')
    assert choice.text == "pipeline 4 x data 2, micro-batch 1, interleaved with 2 chunks, recompute all"


def test_v_shaped_schedules_have_chunks_that_nobody_says(small):
    folded = small.changed(
        [("parallel.mesh", "{pipeline: 2, data: 4}"), ("parallel.schedule", "{kind: zb_v}")]
    )
    space = PlanSpace.of(folded, ["recompute"])
    assert space.base.chunks == 1
    assert ("parallel.schedule", "{kind: zb_v}") in space.changes_of(space.base)


def test_parameter_servers_are_refused():
    with pytest.raises(ScenarioError, match="some are parameter servers") as caught:
        PlanSpace.of(Scenario.load("scenarios/wide-deep-8-ascend-910-servers.yaml"))
    assert caught.value.problems[0].path == "parallel.parameter_server"
