"""Where time goes by operator, kernel and collective: sums are those of the summary, on every way to run."""

from __future__ import annotations

import json

import pytest

from simcluster.simulation import simulate
from simcluster.trace import Run
from tests.support.scenarios import TINY, scenario

MESHES = [{"data": 4}, {"pipeline": 2, "data": 2}, {"pipeline": 2, "data": 2, "tensor": 2}]
JITTER = {"devices": "all", "compute": {"normal": [1.0, 0.2]}}


@pytest.mark.parametrize("changes", [[], [JITTER]])
@pytest.mark.parametrize("mesh", MESHES)
def test_sums(mesh, changes):
    which = scenario(
        mesh,
        host="dgx-h100",
        devices=min(4, 2 * len(mesh)),
        model=TINY,
        training={"seq_len": 16},
        micro_batches=3,
        optimizer_sharding={"zero": 3},
        run={"steps": 2},
        changes=changes,
    )
    documents = simulate(which).documents
    use, summary = documents["time_use"], documents["summary"]
    operators = use["operators"]
    assert sum(entry["arithmetic_s"] + entry["memory_s"] for entry in operators) == pytest.approx(
        summary["compute_s"]
    )
    assert sum(entry["launch_s"] for entry in operators) == pytest.approx(summary["host_s"])
    for kernels in (operators, use["kernels"]):
        assert sum(entry["seconds"] for entry in kernels) == pytest.approx(
            summary["compute_s"] + summary["host_s"]
        )
        assert all(0 <= entry["of_peak"] <= 1.3 for entry in kernels)
    exposed = {}
    for entry in use["collectives"]:
        assert entry["exposed_s"] <= summary["step_time_s"]
        exposed[entry["axis"]] = exposed.get(entry["axis"], 0.0) + entry["exposed_s"]
    expected = summary["exposed_communication_s"]
    assert {axis: spent for axis, spent in exposed.items() if spent} == pytest.approx(expected)


def test_documents_are_made_when_read_and_saved(tmp_path):
    run = simulate(scenario({"data": 2}, host="dgx-h100", devices=2))
    assert set(run.documents) >= {"summary", "critical_path", "time_use"}
    assert run.documents["time_use"] is run.documents["time_use"]
    run.save(tmp_path / "run")
    again = Run.load(tmp_path / "run")
    for name in ("critical_path", "time_use"):
        assert again.documents[name] == json.loads(json.dumps(run.documents[name]))
