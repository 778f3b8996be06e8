"""Layers of stages that are not spread evenly, as notes of rows say it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simcluster.accuracy.runs import scenario_of
from simcluster.accuracy.runs.scenarios.uneven_stages import balanced_layers
from simcluster.scenario import Scenario
from tests.support.published_runs import run_of

STAGES = {
    "pipeline": "2",
    "data": "2",
    "layers": "8",
    "schedule": "interleaved-1f1b",
    "virtual_pipeline": "2",
}


@given(st.integers(2, 64), st.integers(2, 16), st.floats(0, 8))
def test_no_other_split_has_a_faster_slowest_stage(layers, stages, head):
    if layers < stages - 1:
        return
    counts = balanced_layers(layers, stages, head)
    slowest = max(*counts[:-1], counts[-1] + head)
    assert sum(counts) == layers
    assert min(counts[:-1]) >= 1
    for last in range(layers - stages + 2):
        most = -(-(layers - last) // (stages - 1))
        assert slowest <= max(most, last + head)


def test_layers_without_work_leave_their_stages_short(tmp_path):
    run = run_of(tmp_path, **STAGES, notes="flags: noop-layers=0,7")
    found = scenario_of(run).data
    assert found["model"]["layers"] == 6
    assert found["parallel"]["schedule"]["stages"] == [[1, 2], [2, 1]]
    Scenario.of(found)


def test_second_chunks_of_a_v_go_back_over_the_stages(tmp_path):
    folded = {**STAGES, "schedule": "dualpipev", "virtual_pipeline": "1"}
    found = scenario_of(run_of(tmp_path, **folded, notes="flags: noop-layers=7")).data
    assert found["parallel"]["schedule"]["stages"] == [[2, 2], [1, 2]]


def test_a_large_head_leaves_the_last_stage_without_layers(tmp_path):
    run = run_of(
        tmp_path,
        **{**STAGES, "schedule": "1f1b", "virtual_pipeline": "1", "vocab": "100000"},
        notes="method redis",
    )
    assert scenario_of(run).data["parallel"]["schedule"]["stages"] == [8, 0]


def test_stages_have_the_layers_that_are_listed(tmp_path):
    plain = {**STAGES, "schedule": "1f1b", "virtual_pipeline": "1"}
    run = run_of(tmp_path, **plain, notes="flags: num-layer-list=3,5")
    assert scenario_of(run).data["parallel"]["schedule"]["stages"] == [3, 5]
