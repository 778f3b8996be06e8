"""The vocabulary split over all stages computes what one device computes, and makes stages equal."""

from __future__ import annotations

import pytest

from simcluster.scenario import Scenario
from simcluster.simulation import simulate, verify
from simcluster.simulation.compose import build_scenario
from simcluster.simulation.views import effective_strategies_of
from tests.support.auto_mode import pasted

MODEL = {"family": "gpt", "hidden": 64, "heads": 4, "layers": 8, "vocab": 512, "max_positions": 2048}


def scenario(mesh, schedule, **changes):
    devices = 1
    for size in mesh.values():
        devices *= size
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "shared vocabulary",
            "cluster": {"host": {"use": "dgx-a100", "devices": devices, "network": {"nics": 1}}, "hosts": 1},
            "model": MODEL | {"tied": False} | changes.pop("model", {}),
            "training": {
                "global_batch": changes.pop("global_batch", 8 * mesh.get("data", 1)),
                "micro_batch": 1,
                "seq_len": changes.pop("seq_len", 16),
                "precision": "bf16",
                "optimizer": {"kind": "adamw", "clip": 1.0},
            },
            "parallel": {"mesh": mesh, "schedule": {"p2p": "overlapped", **schedule}, **changes},
        }
    )


TWO, V_HALF = {"vocabulary": "two_barriers"}, {"kind": "v_half", "vocabulary": "two_barriers"}
INTERLACED, ONE = {"vocabulary": "interlaced"}, {"vocabulary": "one_barrier"}
ROWS = [
    {"mesh": {"pipeline": 2, "tensor": 2}, "schedule": TWO, "recipe": "megatron_sp"},
    {"mesh": {"pipeline": 3, "data": 2}, "schedule": V_HALF, "optimizer_sharding": {"zero": 1}},
    {"mesh": {"pipeline": 4}, "schedule": INTERLACED, "recompute": {"layers": "all"}},
    {"mesh": {"pipeline": 4, "data": 2}, "schedule": TWO, "optimizer_sharding": {"zero": 3}},
    {"mesh": {"data": 2, "pipeline": 2, "tensor": 2}, "schedule": INTERLACED, "recipe": "megatron"},
    {"mesh": {"pipeline": 3, "tensor": 2}, "schedule": ONE, "recipe": "megatron_sp"},
    {"mesh": {"data": 2, "pipeline": 4}, "schedule": ONE, "optimizer_sharding": {"zero": 1}},
    {"mesh": {"tensor": 2, "pipeline": 4}, "schedule": V_HALF, "model": {"dropout": 0.1}},
]


@pytest.mark.parametrize(
    "row", [ROWS[0], *(pytest.param(row, marks=pytest.mark.thorough) for row in ROWS[1:])]
)
def test_it_computes_what_one_device_computes(row):
    found = verify(scenario(**row))
    assert found.agrees, found.fault or found.first_difference


@pytest.mark.thorough
def test_no_stage_has_more_to_do_than_another():
    """With a vocabulary as heavy as several layers, the last stage would be the slowest by far."""
    heavy = {"hidden": 1024, "heads": 8, "vocab": 65536}
    times = [
        simulate(scenario({"pipeline": 4}, schedule, model=heavy)).documents["summary"]["step_time_s"]
        for schedule in (TWO, {})
    ]
    assert times[0] < 0.7 * times[1]


@pytest.mark.thorough
def test_stages_of_v_half_do_not_wait_for_each_other_at_every_barrier():
    """Backwards take longer than forwards, so stages are ahead at one time and behind at another."""
    large = {"model": {"hidden": 2048, "heads": 16, "layers": 16}, "seq_len": 2048, "global_batch": 64}
    whole, shared = (
        simulate(scenario({"pipeline": 8}, schedule, **large)).documents["summary"]["step_time_s"]
        for schedule in ({"kind": "v_half"}, V_HALF)
    )
    assert shared < 1.03 * whole


@pytest.mark.thorough
def test_folded_and_unfolded_runs_are_equal():
    row = ROWS[0] | {"mesh": {"data": 2, "pipeline": 2}, "recipe": "data"}
    folded, unfolded = (simulate(scenario(**row), unfold=unfold) for unfold in (False, True))
    assert folded.documents["summary"]["step_time_s"] == unfolded.documents["summary"]["step_time_s"]


@pytest.mark.thorough
def test_strategies_that_are_printed_give_the_same_program():
    which = scenario({"pipeline": 2, "tensor": 2}, ONE, recipe="megatron")
    made = build_scenario(which)
    again = build_scenario(pasted(which, effective_strategies_of(made.plan)))
    assert again.program.codes == made.program.codes
