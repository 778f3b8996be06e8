"""Plans on other meshes: what depends on the number of stages is changed with it."""

from __future__ import annotations

import pytest

from simcluster.plan import ScheduleSpec
from simcluster.tuning import reasoned_knobs
from simcluster.tuning.knobs.adapted_stages import mesh_changes, schedule_text
from tests.support.made_up_runs import made_up_run

FOUR = {"pipeline": 4, "data": 1, "tensor": 4}
"""Twice the stages of the made-up run, which has 8 layers."""


def adapted(schedule=None, sizes=FOUR, **figures):
    """The changes besides that of the mesh, and what the scenario says with all of them."""
    parallel = {} if schedule is None else {"schedule": schedule}
    present = made_up_run(parallel=parallel | figures.pop("parallel", {}), **figures)
    changes = mesh_changes(present.scenario, present.plan, sizes)
    assert changes[0][0] == "parallel.mesh"
    return dict(changes[1:]), present.scenario.changed(changes).spec


def test_a_schedule_that_fits_is_left_alone():
    for schedule in (None, "gpipe", "zb_v", {"kind": "interleaved", "chunks": 2}):
        assert adapted(schedule)[0] == {}
    listed = {"kind": "1f1b", "stages": [3, 5]}
    assert adapted(listed, {"pipeline": 2, "data": 4, "tensor": 2})[0] == {}


def test_layers_listed_by_stage_are_divided_anew():
    for stages in ([3, 5], [[3, 5]]):
        changes, spec = adapted({"kind": "1f1b", "stages": stages})
        assert changes == {"parallel.schedule": "{kind: 1f1b, stages: auto}"}
        assert spec.parallel.schedule.stages == "auto"
    changes, _ = adapted({"kind": "zb_v", "stages": [[1, 2], [2, 3]]})
    assert changes == {"parallel.schedule": "{kind: zb_v, stages: auto}"}


def test_chunks_are_fewer_where_layers_do_not_suffice():
    changes, _ = adapted({"kind": "interleaved", "chunks": 4, "p2p": "overlapped"})
    assert changes == {"parallel.schedule": "{kind: interleaved, chunks: 2, p2p: overlapped}"}
    eight = {"pipeline": 8, "data": 1, "tensor": 2}
    for schedule in ("interleaved", "zb_v", "dualpipe_v"):
        assert adapted(schedule, eight)[0] == {"parallel.schedule": "1f1b"}


def test_chunks_into_which_layers_divide_are_preferred():
    """12 layers on 4 stages are 3 chunks; 4 chunks would have a layer, or none."""
    plan = {"layers_per_stage": [12, 12]}
    changes, _ = adapted({"kind": "interleaved", "chunks": 4}, plan=plan)
    assert changes == {"parallel.schedule": "{kind: interleaved, chunks: 3}"}


def test_more_stages_than_layers_stay_impossible():
    assert adapted("interleaved", {"pipeline": 16})[0] == {}


def test_slices_divide_the_stages():
    schedule = {"kind": "seqvpp", "chunks": 2, "slices": 3}
    assert adapted(schedule)[0] == {"parallel.schedule": "{kind: seqvpp, chunks: 2, slices: 2}"}


def test_a_written_schedule_is_of_its_stages_alone():
    written = "F0 F1 B0 B1\nF0 B0 F1 B1"
    assert adapted({"kind": "text", "text": written})[0] == {"parallel.schedule": "1f1b"}


def test_one_stage_has_no_order():
    one = {"data": 4, "tensor": 4}
    assert adapted({"kind": "1f1b", "vocabulary": "two_barriers"}, one)[0] == {"parallel.schedule": "1f1b"}
    assert adapted(None, one)[0] == {}


@pytest.mark.parametrize(
    ("layers", "expected"),
    [([2, 0], "{layers: 1}"), ([4, 3], "{layers: all}"), ([0, 0], "{layers: none}"), (3, "{layers: all}")],
)
def test_recomputed_layers_are_counted_anew(layers, expected):
    changes, spec = adapted(parallel={"recompute": {"layers": layers}})
    assert changes == {"parallel.recompute": expected}
    assert spec.parallel.recompute.layers in (1, "all", "none")


def test_what_else_is_recomputed_stays():
    recompute = {"layers": [2, 0], "operators": ["layers.*.norm*"]}
    _, spec = adapted(parallel={"recompute": recompute})
    assert spec.parallel.recompute.operators == ("layers.*.norm*",)
    assert spec.parallel.recompute.layers == 1
    assert adapted(parallel={"recompute": 1})[0] == {}


def test_micro_batches_divide_the_samples_of_more_ranks():
    figures = {"training": {"global_batch": 8, "micro_batch": 4}}
    changes, _ = adapted(None, {"pipeline": 2, "data": 8}, **figures)
    assert changes == {"training.micro_batch": "1"}
    changes, _ = adapted(None, {"pipeline": 2, "data": 8}, parallel={"copies": 2}, **figures)
    assert changes == {"parallel.copies": "1", "training.micro_batch": "1"}


def test_uneven_stages_are_those_of_one_chunk():
    """A list of stages says nothing of two chunks on each: it was refused, and called impossible."""
    figures = {"compute_s": 8.0, "compute_s_max": 8.5}
    for kind, offered in (("1f1b", True), ("dualpipe_v", False), ("interleaved", False)):
        parallel = {"mesh": {"pipeline": 4, "data": 4}, "schedule": kind}
        kinds = {entry.knob.kind for entry in reasoned_knobs(made_up_run(parallel=parallel, **figures))}
        assert ("uneven stages" in kinds) is offered


def test_lists_of_layers_are_kept_where_the_chunks_are_as_many():
    scenario = made_up_run(parallel={"schedule": {"kind": "1f1b", "stages": [3, 5]}}).scenario
    assert schedule_text(scenario, 2, kind="zb_h1") == "{kind: zb_h1, stages: [3, 5]}"
    assert schedule_text(scenario, 2, kind="zb_v") == "{kind: zb_v, stages: auto}"
    text = schedule_text(scenario, 2, kind="interleaved", chunks=4)
    assert text == "{kind: interleaved, chunks: 4, stages: auto}"


def test_other_choices_of_a_schedule_are_kept():
    schedule = {"kind": "1f1b", "vocabulary": "two_barriers", "p2p": "blocking"}
    scenario = made_up_run(parallel={"schedule": schedule}).scenario
    text = schedule_text(scenario, 2, p2p="overlapped")
    assert scenario.changed([("parallel.schedule", text)]).spec.parallel.schedule == ScheduleSpec(
        kind="1f1b", vocabulary="two_barriers", p2p="overlapped"
    )
