"""Waits and allocations, which are found for all at once, against loops over every gap and every buffer."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.analysis import find_idle_gaps
from simcluster.analysis.memory_usage import AllocationAccount
from simcluster.simulation import build_scenario, simulate
from simcluster.simulation.compose.build import run_alone
from simcluster.simulation.recording import LazyTrace
from tests.support.offload_scenarios import scenario as offload_scenario
from tests.support.one_by_one import OF_RUNTIME, allocations_of, waits_of
from tests.support.scenarios import scenario

SCENARIOS = {
    "1f1b": scenario({"pipeline": 2, "data": 2, "tensor": 2}),
    "two steps": scenario({"pipeline": 2, "data": 2}, run={"steps": 2}),
    "one stage": scenario({"data": 2, "tensor": 2}),
    "zb_v": scenario({"pipeline": 2, "data": 2}, schedule={"kind": "zb_v"}),
    "fsdp": scenario({"data": 4}, optimizer_sharding={"fsdp": {}}),
    "kept weights": scenario({"pipeline": 2, "data": 2}, optimizer_sharding={"mindspore": "level1"}),
    "offload": offload_scenario({"optimizer_states": "host", "activations": "host"}, {"data": 2}),
    "slowed": scenario({"pipeline": 2, "tensor": 2}, host="dgx-h100"),
}


@pytest.fixture(scope="module", params=SCENARIOS)
def timed(request):
    built = build_scenario(SCENARIOS[request.param])
    return built, run_alone(built)


def test_waits(timed):
    built, timing = timed
    where = built.program.stage_axis, built.plan.num_stages
    waits = find_idle_gaps(timing.classes, timing.end, *where)
    assert len(waits)
    for index, each in enumerate(timing.classes):
        rows = waits.where(waits["class"] == index)
        found = zip(rows["start"].tolist(), rows["end"].tolist(), rows.text("cause").tolist(), strict=True)
        assert list(found) == waits_of(each, timing.end, *where)


def test_allocations(timed):
    built, timing = timed
    memory = LazyTrace(built.placed, timing).memory
    for index, part in enumerate(built.placed.parts):
        rows = memory.among("class", index)
        order = np.lexsort((rows["buffer"], rows["bytes"] > 0, rows["time"]))
        assert np.array_equal(order, np.arange(len(rows))), "by time, releases first, then by buffer"
        columns = rows["time"], rows["bytes"], rows.text("buffer"), rows.text("category"), rows["micro_batch"]
        found = sorted(zip(*(column.tolist() for column in columns), strict=True))
        wanted = allocations_of(built.program, part, timing.classes[index])
        assert [row for row in found if row[2] not in OF_RUNTIME] == wanted


def test_rows_of_a_class_are_those_of_the_table(timed):
    built, timing = timed
    placed = built.placed
    every = AllocationAccount(placed, timing).table()
    account = AllocationAccount(placed, timing)
    for index in reversed(range(len(timing.classes))):
        own, rows = account.rows(index), every.where(every["class"] == index)
        for name in every.columns:
            assert own[name].dtype == rows[name].dtype
            assert np.array_equal(own[name], rows[name]), name
        assert list(own.names["buffer"]) == list(every.names["buffer"])[: len(own.names["buffer"])]


def test_a_summary_needs_no_table_of_all_allocations_and_no_recording(monkeypatch):
    def made(*_):
        raise AssertionError("nobody asked for it")

    monkeypatch.setattr(AllocationAccount, "table", made)
    monkeypatch.setattr(LazyTrace, "_record", made)
    run = simulate(SCENARIOS["1f1b"])
    for look in (lambda: len(run.memory), lambda: len(run.recording)):
        with pytest.raises(AssertionError, match="asked"):
            look()
