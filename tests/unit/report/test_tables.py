import numpy as np
import pytest

from simcluster.errors import TraceError
from simcluster.report import tables as columns


def test_times_are_seconds_and_names_text(any_run):
    table, raw = columns.spans_table(any_run), any_run.spans
    assert len(table) == len(raw)
    assert np.array_equal(np.rint(table["start_s"] * 1e9), raw["start"])
    assert np.allclose(table["duration_s"], table["end_s"] - table["start_s"])
    assert np.array_equal(table.text("operator"), raw.text("operator"))
    assert set(table.names) <= set(table.columns)


def test_rows_say_whose_they_are(any_run):
    for make in (columns.spans_table, columns.transfers_table, columns.memory_table, columns.waits_table):
        table = make(any_run)
        for each in any_run.documents["classes"]:
            mine = table.where(table["class"] == each["class"])
            assert set(mine["stage"].tolist()) <= {each["stage"]}
            assert set(mine["rank"].tolist()) <= {each["representative"]}
            assert set(mine["ranks"].tolist()) <= {each["ranks"]}


def test_the_rows_of_ranks_are_those_of_their_classes(any_run):
    ranks = [0, len(any_run.ranks) - 1, 1]
    for make in (columns.spans_table, columns.transfers_table, columns.memory_table, columns.waits_table):
        whole, some = make(any_run), make(any_run, ranks)
        assert list(some.columns) == list(whole.columns)
        assert set(some["rank"].tolist()) == (set(ranks) if len(whole) else set())
        for rank in ranks:
            mine = some.where(some["rank"] == rank)
            theirs = whole.where(whole["class"] == any_run.ranks["class"][rank])
            for name in set(whole.columns) - {"rank"}:
                assert np.array_equal(mine[name], theirs[name]), name
        with pytest.raises(TraceError, match="there is no rank -1"):
            make(any_run, [-1])
        assert len(make(any_run, [])) == 0


def test_transfers_start_when_ready_or_later(any_run):
    table = columns.transfers_table(any_run)
    assert np.all(table["ready_s"] <= table["start_s"])
    assert "compute" not in set(table.text("kind").tolist())


def test_held_bytes_are_the_sum_so_far_of_each_class(any_run):
    table = columns.memory_table(any_run)
    for entry in any_run.documents["summary"]["peak_memory_bytes"]:
        mine = table.where(table["class"] == entry["class"])
        assert np.array_equal(mine["held_bytes"], np.cumsum(mine["bytes"]))
        assert mine["held_bytes"].max() == entry["total"]


def test_waits_and_kernels_fill_the_run(any_run):
    waits, spans = columns.waits_table(any_run), columns.spans_table(any_run)
    for each in any_run.documents["classes"]:
        idle = waits["duration_s"][waits["class"] == each["class"]].sum()
        kernels = (spans["class"] == each["class"]) & (spans.text("kind") == "compute")
        busy = spans["duration_s"][kernels].sum()
        assert idle + busy == pytest.approx(spans["end_s"].max(), rel=1e-6)
