"""Published peaks of memory against their simulation, by publisher: the guide shows the table."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from simcluster.accuracy.runs import RunFigure, predict_runs, read_runs, runs_markdown, scenario_of
from simcluster.accuracy.runs.report import run_errors_by_group
from simcluster.document import Document
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from tests.support.marked_tables import ACCURACY, hold_marked_table

HERE = Path(__file__).parent
BOUNDS = Document.read(HERE / "memory.yaml").data


@cache
def predictions():
    """Of rows that are the same but for their micro-batches, which do not matter to memory, the first."""
    rows = {}
    for row in read_runs(HERE / "memory.csv"):
        words = {key: text for key, text in row.words.items() if key not in ("id", "value", "notes")}
        if row.count("global_batch") >= 2 * row.count("data") * row.count("pipeline"):
            words["global_batch"] = "many"
        rows.setdefault(tuple(words.values()), row)
    return [each for each in predict_runs(rows.values()) if each.figure is RunFigure.MEMORY]


def errors():
    return {name: found for (name, _), found in run_errors_by_group(predictions()).items()}


@pytest.mark.thorough
def test_median_errors_stay_within_their_bounds_and_the_guide_shows_them(request):
    """One test, so that its rows, a minute and a half of them, are simulated by one process only."""
    medians = {name: 100 * error.median for name, error in errors().items()}
    assert set(medians) == set(BOUNDS)
    assert not {name: median for name, median in medians.items() if median > BOUNDS[name]}
    hold_marked_table(ACCURACY, "memory", runs_markdown(predictions()), request)


def test_what_was_reserved_is_predicted_too():
    """The notes of some rows state what PyTorch had reserved: fragments and rounding, by replay.

    Where sequences are in parts, which are exchanged for heads, more fragments were left than here.
    """
    found: dict[bool, list[float]] = {True: [], False: []}
    for row in read_runs(HERE / "memory.csv"):
        told = re.search(r"reserved ([\d.]+) GiB", row.words["notes"])
        if told is None or "_mbc4_" not in row.words["notes"] or "llama" not in row.words["model"]:
            continue
        summary = simulate(Scenario.of(scenario_of(row).data)).documents["summary"]
        error = summary["reserved_memory_bytes_max"] / (float(told[1]) * 2**30) - 1
        found[row.count("context") == 1].append(abs(error))
    assert [len(each) for each in found.values()] == [5, 5]
    assert max(found[True]) < 0.03
    assert max(found[False]) < 0.08
