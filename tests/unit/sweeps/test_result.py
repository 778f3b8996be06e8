"""Which row is best, which are on the front, and the rows as files."""

from __future__ import annotations

import csv
import io
import json

import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sweep_results import GIB, impossible, row, sweep_result

ROWS = st.lists(
    st.one_of(
        st.builds(row, st.integers(1, 6), st.integers(60, 100)),
        st.builds(row, st.integers(1, 6), st.just(79), verdict=st.just("tight")),
        st.just(impossible()),
    ),
    min_size=1,
    max_size=12,
)


@given(ROWS)
def test_best_and_front_are_those_of_all_pairs(rows):
    result = sweep_result(rows)
    fitting = [one for one in rows if one["fits"]]
    best = result.best
    if not fitting:
        assert best is None and result.pareto == []
        return
    assert best["step_time_s"] == min(one["step_time_s"] for one in fitting)
    assert sum(one["best"] for one in result.rows) == 1

    def beats(one, other):
        figures = ("step_time_s", "peak_memory_bytes")
        return all(one[f] <= other[f] for f in figures) and any(one[f] < other[f] for f in figures)

    front = {
        (one["step_time_s"], one["peak_memory_bytes"])
        for one in fitting
        if not any(beats(other, one) for other in fitting)
    }
    found = [(one["step_time_s"], one["peak_memory_bytes"]) for one in result.pareto]
    assert len(found) == len(set(found))
    assert set(found) == front
    assert found == sorted(found)


@given(ROWS)
def test_ranks_are_an_order_of_all(rows):
    result = sweep_result(rows)
    assert sorted(result.ranked.order) == list(range(len(rows)))
    verdicts = [rows[place]["fits"] for place in result.ranked.order]
    assert verdicts == sorted(verdicts, reverse=True)
    assert [rows[place]["verdict"] == "impossible" for place in result.ranked.order] == sorted(
        one["verdict"] == "impossible" for one in rows
    )


@pytest.mark.parametrize(
    ("objective", "best"), [("step_time", 1), ("tokens_per_s", 1), ("memory", 2), ("mfu", 0)]
)
def test_objectives(objective, best):
    rows = [row(3, 70), row(2, 75), row(4, 60), row(1, 90)]
    result = sweep_result(rows, objective=objective)
    assert result.ranked.best_point == best
    assert result.best["training.micro_batch"] == best + 1


def test_json_and_csv_have_every_row():
    result = sweep_result([row(2, 70), impossible("a, b"), row(1, 90)], missing=[2])
    document = json.loads(result.to_json())
    assert document["vary"] == {"training.micro_batch": [1, 2, 3]}
    assert document["rows"] == result.rows
    assert document["best"]["step_time_s"] == 2.0
    lines = list(csv.DictReader(io.StringIO(result.to_csv())))
    assert [line["training.micro_batch"] for line in lines] == ["1", "2"]
    assert [line["fits"] for line in lines] == ["true", "false"]
    assert [line["reason"] for line in lines] == ["", "a, b"]
    assert [line["step_time_s"] for line in lines] == ["2.0", ""]
    assert lines[0]["peak_memory_bytes"] == str(70 * GIB)


def test_a_frame_has_columns_of_one_kind(tmp_path):
    settings = ["parallel.mesh.tensor=1,2", "parallel.mesh.data=auto,8", "x={a: 1}", "y=1,0.5"]
    result = sweep_result([impossible()] * 7 + [row(1, 20)], settings)
    frame = result.frame()
    assert frame["parallel.mesh.tensor"].dtype == polars.Int64
    assert frame["parallel.mesh.data"].to_list() == ["auto", "auto", "8", "8"] * 2
    assert frame["x"].to_list() == ['{"a": 1}'] * 8
    assert frame["y"].to_list() == [1.0, 0.5] * 4
    assert frame["step_time_s"].to_list() == [None] * 7 + [1.0]
    assert frame["best"].to_list() == [False] * 7 + [True]
    assert sweep_result([impossible()]).frame()["num_ranks"].dtype == polars.Int64
    assert result.to_csv(tmp_path / "rows.csv") == (tmp_path / "rows.csv").read_text()
