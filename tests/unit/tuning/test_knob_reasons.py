"""The rules of knobs: on which figures of a run each is worth a trial, and what it then changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from simcluster.plan import FrameworkSpec
from simcluster.registry import kinds
from simcluster.scenario import Scenario
from simcluster.tuning import Knob, KnobPurpose, open_knobs, reasoned_knobs
from simcluster.tuning.knobs.axis_order import AxisOrderKnob
from tests.support.made_up_runs import USUAL, made_up_run

SCENARIOS = Path(__file__).parents[3] / "scenarios"
SHARDED = {"states": True, "gradients": True, "weights": True, "split": "flat"}
OFFLOADED = {"offload": {"activations": "host"}}
SP = {"recipe": "megatron_sp"}
TENSOR_OUTSIDE = {"mesh": {"tensor": 4, "pipeline": 2, "data": 2}}
LONG = {"seq_len": 16_384}
EXPERTS = {"experts": {"count": 8, "top_k": 2, "ffn": 1024}}
SHARED_EXPERTS = {"mesh": {"data": 4, "expert": 4}}
WIDE = {"match": "layers.*.mlp.up", "split": {"ffn": "tensor"}}

RULES = {
    "axis order": ({"parallel": TENSOR_OUTSIDE}, {}),
    "data parallelism alone": ({"bubble": 0.06}, {"bubble": 0.04}),
    "gradient buckets": ({"exposed": {"data": 0.02}}, {"exposed": {"data": 0.005}}),
    "gradient overlap": (
        {"exposed": {"data": 0.02}, "framework": "megatron-core"},
        {"exposed": {"data": 0.02}, "framework": "nemo"},
    ),
    "communication sub-graph reuse": (
        {"host": 0.02, "framework": {"use": "ideal", "collective_call": "20 us"}},
        {"host": 0.02},
    ),
    "recompute auto": ({"needed": 90.0}, {"needed": 79.0}),
    "recompute": ({"needed": 90.0}, {"needed": 79.0}),
    "optimizer sharding": ({}, {"plan": {"optimizer_sharding": SHARDED}}),
    "offload": ({"needed": 90.0}, {"needed": 79.0}),
    "micro-batch": ({"bubble": 0.2}, {"bubble": 0.05}),
    "tensor parallelism": ({"exposed": {"data": 0.2}}, {"exposed": {"data": 0.05}}),
    "pipeline": ({"needed": 90.0}, {"exposed": {"data": 0.05}}),
    "less tensor parallelism": ({"exposed": {"tensor": 0.2}}, {"exposed": {"tensor": 0.04}}),
    "fewer stages": ({"bubble": 0.2}, {"bubble": 0.05}),
    "larger micro-batch": ({"needed": 20.0}, {"needed": 70.0}),
    "operator splits": (
        {"exposed": {"tensor": 0.2}, "parallel": {"strategies": [WIDE]}},
        {"exposed": {"tensor": 0.2}},
    ),
    "interleaved schedule": ({"bubble": 0.2}, {"bubble": 0.05}),
    "zero-bubble schedule": ({"bubble": 0.2}, {"bubble": 0.05}),
    "1F1B schedule": (
        {"parallel": {"schedule": "gpipe"}},
        {"parallel": {"schedule": "gpipe"}, "plan": {"micro_batches": 2}},
    ),
    "overlapped transfers": (
        {"exposed": {"pipeline": 0.02}, "parallel": {"schedule": {"p2p": "blocking"}}},
        {"exposed": {"pipeline": 0.02}},
    ),
    "less recomputation": (
        {"needed": 20.0, "parallel": {"recompute": "all"}, "hfu": 0.5, "mfu": 0.4},
        {"needed": 70.0, "parallel": {"recompute": "all"}, "hfu": 0.5, "mfu": 0.4},
    ),
    "less offload": (
        {"needed": 20.0, "parallel": OFFLOADED, "plan": {"offload": {"rules": 1}}, "offload_wait_s": 1.0},
        {"needed": 75.0, "parallel": OFFLOADED, "plan": {"offload": {"rules": 1}}, "offload_wait_s": 1.0},
    ),
    "less sharding": (
        {"needed": 20.0, "exposed": {"data": 0.2}, "plan": {"optimizer_sharding": SHARDED}},
        {"needed": 70.0, "exposed": {"data": 0.2}, "plan": {"optimizer_sharding": SHARDED}},
    ),
    "sequence parallelism": ({"exposed": {"tensor": 0.2}, "parallel": SP}, {"parallel": SP}),
    "copies": (
        {"exposed": {"tensor": 0.2}},
        {"exposed": {"tensor": 0.2}, "parallel": {"copies": 2}},
    ),
    "context parallelism": (
        {"needed": 90.0, "training": LONG},
        {"needed": 90.0},
    ),
    "less context parallelism": (
        {"exposed": {"context": 0.1}, "parallel": {"mesh": {"data": 4, "context": 4}}, "training": LONG},
        {"exposed": {"context": 0.01}, "parallel": {"mesh": {"data": 4, "context": 4}}, "training": LONG},
    ),
    "expert parallelism": ({"needed": 90.0, "model": EXPERTS}, {"needed": 90.0}),
    "less expert parallelism": (
        {"exposed": {"expert": 0.1}, "parallel": SHARED_EXPERTS, "model": EXPERTS},
        {"exposed": {"expert": 0.01}, "parallel": SHARED_EXPERTS, "model": EXPERTS},
    ),
    "whole experts": (
        {"exposed": {"tensor": 0.2}, "model": EXPERTS},
        {"exposed": {"tensor": 0.2}},
    ),
    "uneven stages": (
        {"parallel": {"mesh": {"pipeline": 4, "data": 4}}, "compute_s": 8.0, "compute_s_max": 8.5},
        {"parallel": {"mesh": {"pipeline": 4, "data": 4}}, "compute_s": 8.0, "compute_s_max": 8.1},
    ),
    "chunked collectives": ({"exposed": {"tensor": 0.2}}, {"exposed": {"tensor": 0.01}}),
}
"""Kind -> a run that asks for it, and one that does not."""


def reasons(**figures):
    return {entry.knob.kind: entry for entry in reasoned_knobs(made_up_run(**figures))}


def test_every_rule_is_tested():
    of_inference = {"cache"}
    assert set(RULES) | of_inference == set(kinds("simcluster.tuning.knobs", Knob))


@pytest.mark.parametrize("kind", RULES)
def test_a_rule_holds_and_does_not(kind):
    asked, not_asked = RULES[kind]
    entry = reasons(**asked)[kind]
    assert entry.why and entry.source and entry.knob.turns
    assert not entry.why.endswith(".")
    assert kind not in reasons(**not_asked)


@pytest.mark.parametrize("kind", RULES)
def test_turns_are_scenarios(kind):
    """What a knob proposes can be read by the scenario, whatever the plan then makes of it."""
    present = made_up_run(**RULES[kind][0])
    for changes in reasons(**RULES[kind][0])[kind].knob.turns:
        assert repr(present.scenario.changed(changes).spec) != repr(present.scenario.spec)


def test_figures_of_the_run_are_in_the_reason():
    assert "20.0 %" in reasons(bubble=0.2)["interleaved schedule"].why
    assert "10.0 GiB" in reasons(needed=90.0)["recompute"].why
    assert "40.0 GiB" in reasons(needed=90.0)["recompute"].why
    assert "4 tensor ranks" in reasons(exposed={"tensor": 0.2})["copies"].why
    assert "groups of tensor span 2 hosts" in reasons(parallel=TENSOR_OUTSIDE)["axis order"].why


def test_a_plan_without_a_fault_has_no_reasons():
    assert not reasons(plan={"optimizer_sharding": SHARDED | {"gradients": False, "weights": False}})


def test_tensor_groups_inside_hosts_stay():
    assert "axis order" not in reasons(exposed={"tensor": 0.3})
    ((change,), *_) = reasons(parallel=TENSOR_OUTSIDE)["axis order"].knob.turns
    assert change == ("parallel.mesh", "{pipeline: 2, data: 2, tensor: 4}")


def test_what_saves_memory_is_turned_as_little_as_it_takes():
    lacking = reasons(needed=90.0, bubble=0.2)
    assert lacking["micro-batch"].nearest and lacking["pipeline"].nearest
    assert not lacking["fewer stages"].nearest
    assert not reasons(bubble=0.2)["micro-batch"].nearest


def test_halves_keep_the_number_of_ranks():
    turns = [turn for (turn,) in reasons(exposed={"tensor": 0.2})["less tensor parallelism"].knob.turns]
    assert turns == [
        ("parallel.mesh", "{pipeline: 2, data: 4, tensor: 2}"),
        ("parallel.mesh", "{pipeline: 4, data: 2, tensor: 2}"),
    ]


@pytest.mark.parametrize(
    ("mesh", "axes"),
    [({"data": 4, "tensor": 4}, "[tensor]"), ({"expert": 2, "tensor": 4}, "[expert, tensor]")],
)
def test_whole_experts_are_over_all_ranks_that_shared_one(mesh, axes):
    figures = {"parallel": {"mesh": mesh}, "exposed": {"tensor": 0.2}, "model": EXPERTS}
    (turn,) = reasons(**figures)["whole experts"].knob.turns
    assert turn == (
        ("parallel.strategies", f'[{{match: "*layers.*.mlp.experts.*", split: {{experts: {axes}}}}}]'),
    )


@pytest.mark.parametrize(
    "parallel",
    [{"mesh": {"expert": 4, "tensor": 4}}, {"mesh": {"data": 4, "tensor": 4}, "strategies": [WIDE]}],
    ids=["too few experts", "operators configured"],
)
def test_experts_that_cannot_be_whole_stay_in_parts(parallel):
    figures = {"parallel": parallel, "exposed": {"tensor": 0.2}, "model": EXPERTS}
    assert "whole experts" not in reasons(**figures)


def test_a_new_axis_stands_where_it_belongs():
    figures = {"parallel": {"mesh": {"tensor": 16}}, "exposed": {"tensor": 0.2}}
    turns = [turn for (turn,) in reasons(**figures)["less tensor parallelism"].knob.turns]
    assert turns == [
        ("parallel.mesh", "{data: 2, tensor: 8}"),
        ("parallel.mesh", "{pipeline: 2, tensor: 8}"),
    ]


def test_without_tensor_ranks_no_collectives_of_theirs_overlap():
    overlapped = {"parallel": {"overlap": {"tensor": {"chunks": 2}}}, "bubble": 0.06}
    for changes in reasons(**overlapped)["data parallelism alone"].knob.turns:
        assert ("parallel.overlap", "{}") in changes


def test_copies_take_larger_micro_batches_where_they_must():
    one = reasons(exposed={"tensor": 0.2}, training={"micro_batch": 1})["copies"].knob.turns
    assert one == ((("parallel.copies", "2"), ("training.micro_batch", "2")),)
    assert (("parallel.copies", "2"),) in reasons(exposed={"tensor": 0.2})["copies"].knob.turns


def test_switches_of_a_profile_with_other_switches_are_kept():
    figures = {"framework": {"use": "megatron-core", "prefetch": 2}, "exposed": {"data": 0.2}}
    present = made_up_run(**figures)
    (changes,) = reasons(**figures)["gradient overlap"].knob.turns
    changed = present.scenario.changed(()).changed(changes).framework
    assert changed.prefetch == 2 and changed.reduction.overlap and changed.gather.value == "overlapped"
    assert changed.reduction.limit is not None, "one buffer of all gradients overlaps with nothing"


@pytest.mark.parametrize(("profile", "cut"), [("megatron-core", True), ("deepspeed-zero", False)])
def test_gradients_that_overlap_are_reduced_in_parts(profile, cut):
    figures = {"framework": profile, "exposed": {"data": 0.2}}
    (changes,) = reasons(**figures)["gradient overlap"].knob.turns
    changed = made_up_run(**figures).scenario.changed(changes).framework
    before = FrameworkSpec.load(profile).reduction
    assert (before.bucket == "whole" and before.limit is None) == cut
    assert changed.reduction.overlap and (changed.reduction.limit != before.limit) == cut


def test_explain_is_offered_what_saves_memory_alone():
    present = made_up_run(needed=90.0, bubble=0.2, exposed={"tensor": 0.3, "data": 0.3})
    offered = {knob.kind for knob in open_knobs(present.scenario, present.plan)}
    known = kinds("simcluster.tuning.knobs", Knob)
    assert offered
    assert all(KnobPurpose.MEMORY in known[kind].serves for kind in offered)


def test_a_program_by_hand_is_left_alone():
    manual = Scenario.load(SCENARIOS / "manual-all-reduce-8-ascend-910.yaml")
    assert not reasoned_knobs(replace(made_up_run(bubble=0.3), scenario=manual))


def test_in_a_mixed_cluster_no_order_of_axes_is_better():
    """Its groups have hosts of several sizes: no one number of devices says which groups span hosts."""
    present = made_up_run(parallel=TENSOR_OUTSIDE)
    assert AxisOrderKnob().reason(present)
    groups = [{"use": "dgx-h100", "hosts": 1}, {"use": "atlas-800t-a2", "hosts": 1}]
    mixed = Scenario.of(USUAL | {"cluster": {"groups": groups}, "parallel": TENSOR_OUTSIDE})
    assert AxisOrderKnob().reason(replace(present, scenario=mixed)) == ""
