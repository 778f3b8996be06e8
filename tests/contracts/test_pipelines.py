"""Every schedule computes what one device computes: on several depths, shardings and options, pairwise.

The schedules of one chunk per stage meet the options of models and recipes in ``test_recipes.py`` too.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, fields

import pytest

from simcluster.document import validate_data
from simcluster.errors import PlanError, SimclusterError
from simcluster.plan.pipeline.schedule import render
from simcluster.plan.spec.schedule_spec import ScheduleSpec, schedule_kinds
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify
from tests.support.covering import covering

FOLDED = "F0 F1 F0c1 B0c1 F1c1 B1c1 B0 B1\nF0 F0c1 F1 F1c1 B0c1 B0 B1c1 B1"
SLICES = "F0 F0s1 F1 F1s1 I0s1 I0 W0 B1s1 W0s1 B1\nF0 F0s1 F1 F1s1 B0s1 B0 I1s1 B1 W1s1"
WRITTEN = {
    "text": [
        {"kind": "text", "text": "F1 F0 F1c1 F0c1 B1c1 B0c1 B1 B0\nF1 F0 F1c1 B1c1 F0c1 B0c1 B1 B0"},
        {"kind": "text", "text": FOLDED, "placement": "folded"},
        {"kind": "text", "text": SLICES},
    ]
}
"""Of schedules that must be told more than their kind; these are of two stages and two micro-batches."""

MODELS = {
    "llama": {"layers": 12, "hidden": 16, "heads": 4, "kv_heads": 2, "ffn": 24, "vocab": 64},
    "gpt, tied": {
        "family": "gpt",
        "layers": 12,
        "hidden": 16,
        "heads": 4,
        "ffn": 32,
        "vocab": 64,
        "positions": "learned",
        "max_positions": 8,
        "tied": True,
        "dropout": 0.1,
    },
    # The encoder's output crosses every stage of the decoder, and so comes to a stage for each of its chunks.
    "t5": {
        "family": "t5",
        "encoder_layers": 4,
        "decoder_layers": 8,
        "hidden": 16,
        "heads": 2,
        "head_dim": 8,
        "ffn": 32,
        "vocab": 64,
        "tied": True,
    },
}
OPTIONS = {
    "stages": [2, 3, 4],
    "micro_batches": [1, 2, 3, 8],
    "model": sorted(MODELS),
    "sharding": [None, {"zero": 1}, {"zero": 2}, {"zero": 3}, {"fsdp": {"reshard_after_forward": False}}],
    "recompute": [{}, {"layers": "all"}, {"operators": ["{,*.}layers.*.mlp.activation"]}],
    "beside": [{}, {"data": 2}, {"tensor": 2}],
    "p2p": ["overlapped", "blocking"],
    "clip": [None, 0.05],
    "fusion": [{}, {"all_reduce": {"mode": "index", "config": [3, 10]}}],
    "precision": ["fp32", "bf16"],
}


KINDS = sorted(schedule_kinds().keys() - WRITTEN.keys())
SLICED = [kind for kind in KINDS if schedule_kinds()[kind]().num_slices > 1]


def accepted(schedule, row) -> int:
    """The micro-batches of a row, or the next number that the schedule accepts."""

    first, stages = row["micro_batches"], row["stages"]
    return next((count for count in range(first, first + stages) if runs(schedule, stages, count)), first)


def runs(schedule, stages, count) -> bool:
    """Whether a schedule runs on so many stages with so many micro-batches."""
    try:
        return bool(validate_data(schedule, ScheduleSpec).build().timetable(stages, count))
    except PlanError:
        return False


def possible(row) -> dict:
    """The row, with more stages if its schedule does not run on so many, and a model that has slices."""
    kind = row["schedule"]
    for stages in (row["stages"], 2, 4):
        if runs({"kind": kind}, stages, accepted({"kind": kind}, row | {"stages": stages})):
            break
    # Of tied parameters, copies on one stage are refused where what is moved for micro-batches is sharded.
    without = ("t5", "gpt, tied") if stages == 1 else ("t5",)
    model = "llama" if kind in SLICED and row["model"] in without else row["model"]
    return row | {"stages": stages, "model": model}


def p2p_of(schedule, row) -> str:
    """The transfers of a row, or those that are the only ones possible."""
    overlaps = validate_data(schedule, ScheduleSpec).build().overlaps(row["stages"])
    return "overlapped" if overlaps else row["p2p"]


def scenario(schedule, row) -> Scenario:
    """A small scenario of a row of options."""
    mesh = {"pipeline": row["stages"], **row["beside"]}
    ranks = math.prod(mesh.values())
    sharding = row["sharding"] if "data" in mesh else None
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "pipeline",
            "cluster": {"host": {"use": "dgx-h100", "devices": ranks, "network": {"nics": 1}}, "hosts": 1},
            "model": MODELS[row["model"]],
            "training": {
                "global_batch": accepted(schedule, row) * 2 * mesh.get("data", 1),
                "micro_batch": 2,
                "seq_len": 8,
                "precision": row["precision"],
                "optimizer": {"kind": "adamw", "clip": row["clip"]},
            },
            "parallel": {
                "mesh": mesh,
                "schedule": {"p2p": p2p_of(schedule, row), **schedule},
                "optimizer_sharding": sharding,
                "recompute": row["recompute"],
                "fusion": row["fusion"] if "data" in mesh and sharding in (None, {"zero": 1}) else {},
            },
        }
    )


def label(row) -> str:
    return "-".join(str(value) for value in row.values())


def prove(schedule, row) -> None:
    found = verify(scenario(schedule, row))
    assert found.agrees, f"{schedule} with {row}: {found.fault or found.first_difference}"
    assert {each.what for each in found.comparisons} == {"loss", "gradient", "update"}


def test_schedules_that_need_more_than_their_kind_have_examples():
    for kind, made in schedule_kinds().items():
        needs = any(each.default is MISSING for each in fields(made))
        assert needs == (kind in WRITTEN), f"add schedules of kind '{kind}' to WRITTEN in {__file__}"


ROWS = list(map(possible, covering({"schedule": KINDS, **OPTIONS})))


@pytest.mark.parametrize("row", ROWS, ids=label)
def test_it_computes_what_one_device_computes(row):
    prove({"kind": row["schedule"]}, row)


@pytest.mark.parametrize("schedule", WRITTEN["text"])
@pytest.mark.parametrize("model", sorted(MODELS))
def test_what_is_written_out_computes_what_one_device_computes(schedule, model):
    model = "llama" if schedule["text"] == SLICES and model == "t5" else model
    for p2p in OPTIONS["p2p"]:
        row = {name: values[0] for name, values in OPTIONS.items()} | {"model": model, "p2p": p2p}
        prove(schedule, row | {"micro_batches": 2})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("p2p", OPTIONS["p2p"])
def test_classes_at_once_and_rank_by_rank_take_the_same_time(kind, p2p):
    row = {name: values[0] for name, values in OPTIONS.items()}
    row |= {"stages": 3, "micro_batches": 6, "beside": {"data": 2}, "p2p": p2p}
    which = scenario({"kind": kind}, possible(row | {"schedule": kind}))
    folded, unfolded = simulate(which), simulate(which, unfold=True)
    assert folded.documents["summary"]["step_time_s"] == unfolded.documents["summary"]["step_time_s"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipeline_that_cannot_wait_for_its_transfers_is_refused(kind):
    row = {name: values[0] for name, values in OPTIONS.items()} | {"micro_batches": 8}
    which = scenario({"kind": kind, "p2p": "blocking"}, row)
    if validate_data({"kind": kind}, ScheduleSpec).build().overlaps(2):
        with pytest.raises(SimclusterError, match="two stages would wait for each other"):
            build_scenario(which)
    else:
        build_scenario(which)


def timed(schedule, row, text=None) -> float:
    """The step of a larger model, in seconds, whose products take longer than their collectives."""
    written = {"kind": "text", "text": text, "placement": "folded"} if text else schedule
    which = scenario(written, row)
    data = which.spec.model_dump(mode="json", exclude_unset=True)
    data["model"] = {"layers": 2 * row["stages"], "hidden": 2048, "heads": 16, "ffn": 5632, "vocab": 4096}
    data["training"] |= {"seq_len": 2048, "precision": "bf16"}
    return float(simulate(Scenario.of(data)).documents["summary"]["step_time_s"])


@pytest.mark.parametrize("recipe", ["tensor", "alone"])
def test_collectives_of_one_half_of_a_pair_run_beside_kernels_of_the_other(recipe):
    """The same order, with pairs and without: pairs hide collectives, and where there are none, nothing."""
    row = {name: values[0] for name, values in OPTIONS.items()} | {"micro_batches": 8, "p2p": "overlapped"}
    row["beside"] = {"tensor": 4} if recipe == "tensor" else {}
    paired = render(schedule_kinds()["dualpipe_v"]().timetable(2, 8))
    together, apart = timed(None, row, paired), timed(None, row, paired.replace("&", " "))
    assert timed({"kind": "dualpipe_v"}, row) == together
    if recipe == "tensor":
        assert together < 0.98 * apart
    else:
        assert together == pytest.approx(apart, rel=2e-3)


ODD = {"kind": "text", "text": "F0 F0c1 I0c1 I0 W0 F1 F1c1 I1c1 W0c1 I1 W1 W1c1"}
"""On one stage; the head, in the second chunk, adds to the tied embedding's gradient behind the embedding."""


@pytest.mark.parametrize("sharding", OPTIONS["sharding"], ids=str)
@pytest.mark.parametrize("schedule", [ODD, {"kind": "zb_h1"}], ids=["odd", "zb_h1"])
@pytest.mark.parametrize("fusion", OPTIONS["fusion"], ids=str)
def test_a_tied_gradient_is_reduced_when_all_its_copies_have_added_theirs(sharding, schedule, fusion):
    row = {name: values[0] for name, values in OPTIONS.items()}
    row |= {"stages": 1, "micro_batches": 2, "beside": {"data": 2}, "model": "gpt, tied"}
    prove(schedule, row | {"sharding": sharding, "fusion": fusion})
