"""Every schedule computes what one device computes: on several depths, shardings and options, pairwise.

The schedules of one chunk per stage meet the options of models and recipes in ``test_recipes.py`` too; in the
quick run every schedule is one of a composition, in ``test_compositions.py``.
"""

from __future__ import annotations

from dataclasses import MISSING, fields

import pytest

from simcluster.document import validate_data
from simcluster.errors import SimclusterError
from simcluster.plan.pipeline.schedule import render
from simcluster.plan.spec.schedule_spec import ScheduleSpec, schedule_kinds
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify
from tests.support.covering import covering, thorough_but_few
from tests.support.pipeline_scenarios import (
    KINDS,
    MODELS,
    OPTIONS,
    SLICES,
    WRITTEN,
    label,
    possible,
    scenario,
)


def prove(schedule, row) -> None:
    found = verify(scenario(schedule, row))
    assert found.agrees, f"{schedule} with {row}: {found.fault or found.first_difference}"
    assert {each.what for each in found.comparisons} == {"loss", "gradient", "update"}


def test_schedules_that_need_more_than_their_kind_have_examples():
    for kind, made in schedule_kinds().items():
        needs = any(each.default is MISSING for each in fields(made))
        assert needs == (kind in WRITTEN), f"add schedules of kind '{kind}' to WRITTEN of pipeline_scenarios"


ROWS = list(
    map(possible, covering({"schedule": KINDS, **OPTIONS}, small=("stages", "micro_batches", "beside")))
)


@pytest.mark.parametrize("row", thorough_but_few(ROWS, ["schedule"]), ids=label)
def test_it_computes_what_one_device_computes(row):
    prove({"kind": row["schedule"]}, row)


@pytest.mark.combinations
@pytest.mark.parametrize("schedule", WRITTEN["text"])
@pytest.mark.parametrize("model", sorted(MODELS))
def test_what_is_written_out_computes_what_one_device_computes(schedule, model):
    model = "llama" if schedule["text"] == SLICES and model == "t5" else model
    for p2p in OPTIONS["p2p"]:
        row = {name: values[0] for name, values in OPTIONS.items()} | {"model": model, "p2p": p2p}
        prove(schedule, row | {"micro_batches": 2})


@pytest.mark.combinations
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


@pytest.mark.combinations
@pytest.mark.parametrize("sharding", OPTIONS["sharding"], ids=str)
@pytest.mark.parametrize("schedule", [ODD, {"kind": "zb_h1"}], ids=["odd", "zb_h1"])
@pytest.mark.parametrize("fusion", OPTIONS["fusion"], ids=str)
def test_a_tied_gradient_is_reduced_when_all_its_copies_have_added_theirs(sharding, schedule, fusion):
    row = {name: values[0] for name, values in OPTIONS.items()}
    row |= {"stages": 1, "micro_batches": 2, "beside": {"data": 2}, "model": "gpt, tied"}
    prove(schedule, row | {"sharding": sharding, "fusion": fusion})
