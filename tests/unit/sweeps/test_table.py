"""The table: what fits in a line, reasons below it, and what follows."""

from __future__ import annotations

import pytest

from simcluster.sweeps import sweep_text
from simcluster.sweeps.table import short_names
from tests.support.sweep_results import impossible, ranked_points, row

ROWS = [row(3, 70), row(2, 75), impossible("a"), row(1, 90), impossible("b"), impossible("a")]


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def test_rows_in_order_with_reasons_below():
    text = sweep_text(ranked_points(ROWS), ordered=False)
    lines = text.splitlines()
    assert lines[0] == "demo: 6 points: 2 fit, 3 impossible, 1 does not fit"
    assert lines[1].split()[:3] == ["micro_batch", "step", "time"]
    assert "memory of 80.0 GiB" in lines[1]
    assert [line.split()[0] for line in lines[2:8]] == list("123456")
    assert lines[3].endswith("best, Pareto")
    assert lines[4].endswith("impossible (1)")
    assert lines[5].endswith("does not fit")
    assert lines[6].endswith("impossible (2)")
    assert lines[7].endswith("impossible (1)")
    assert lines[8:10] == ["  (1)  a", "  (2)  b"]
    assert lines[10] == "best by step time: 2.00 s with --set training.micro_batch=2"
    assert lines[11] == "Pareto front of step time against memory: 2 points"


def test_best_first_and_only_so_many():
    lines = sweep_text(ranked_points(ROWS), top=2).splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["2", "1"]
    assert lines[4] == "... and 4 more"


def test_nothing_fits():
    text = sweep_text(ranked_points([row(1, 90), row(2, 85), impossible()]))
    assert "no point fits; the nearest is training.micro_batch=2: stage 0 needs 85 GiB" in text
    assert sweep_text(ranked_points([impossible()])).splitlines()[-1] == "no point fits"


def test_of_what_is_not_done_yet():
    assert sweep_text(ranked_points(ROWS, missing=range(6))).splitlines() == ["demo: 0 of 6 points"]
    assert "demo: 1 of 6 points: 1 fits" in sweep_text(ranked_points(ROWS, missing=range(1, 6)))


def test_memory_objective_and_several_capacities():
    text = sweep_text(ranked_points([row(1, 70), row(2, 90, capacity=64)], objective="memory"))
    assert "best by memory: 70.0 GiB" in text
    assert "memory of" not in text
    assert "does not fit (1)" in text
    assert "(1)  does not fit: stage 0 needs 90 GiB of 64 GiB" in text


def test_names_are_as_short_as_tells_them_apart():
    assert short_names(["parallel.mesh.tensor", "training.micro_batch"]) == ["tensor", "micro_batch"]
    assert short_names(["a.x.kind", "a.y.kind"]) == ["x.kind", "y.kind"]
    assert short_names(["name", "model.name"]) == ["name", "model.name"]


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (60, ["step time", "memory"]),
        (80, ["step time", "tokens/s", "MFU", "memory"]),
        (120, ["step time", "tokens/s", "MFU", "exposed", "bubble", "memory"]),
    ],
)
def test_narrow_screens_have_fewer_columns(monkeypatch, width, titles):
    monkeypatch.setenv("COLUMNS", str(width))
    head = sweep_text(ranked_points(ROWS)).splitlines()[1]
    shown = ["step time", "tokens/s", "MFU", "exposed", "bubble", "memory"]
    assert [title for title in shown if title in head] == titles
    assert "…" not in head


def test_settings_can_be_pasted_into_a_shell():
    result = ranked_points([row(1, 20)], ["parallel.mesh={data: 4, tensor: 2}"])
    assert """--set 'parallel.mesh={"data": 4, "tensor": 2}'""" in sweep_text(result)
