"""Published peaks of memory against their simulation, by group of rows: the README shows the table."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from simcluster.accuracy import memory_errors, memory_markdown, predict_memory, read_runs
from simcluster.accuracy.run_scenario import known_runs
from simcluster.document import Document
from simcluster.plan.framework import FrameworkSpec

HERE = Path(__file__).parent
README = HERE.parents[1] / "README.md"
BOUNDS = Document.read(HERE / "memory.yaml").data
START, END = "<!-- memory -->\n", "<!-- /memory -->\n"


@cache
def predictions():
    return predict_memory(read_runs(HERE / "runs.csv"))


@pytest.mark.parametrize("group", BOUNDS)
def test_the_median_error_stays_within_its_bound(group):
    assert 100 * memory_errors(predictions())[group].median <= BOUNDS[group]


def test_every_group_has_a_bound():
    assert set(memory_errors(predictions())) == set(BOUNDS)


def test_rows_are_left_out_for_reasons_that_words_tell():
    """No row fails for a plan that is impossible: what is not simulated is refused by its columns."""
    reasons = {each.reason for each in predictions() if each.reason}
    assert len(reasons) < 15
    assert sum(not each.reason for each in predictions()) >= 93


def test_what_was_reserved_is_predicted_too():
    """The notes of some rows state what PyTorch had reserved: fragments and rounding, by replay."""
    from simcluster.accuracy.run_scenario import scenario_of
    from simcluster.scenario import Scenario
    from simcluster.simulation import simulate

    errors = []
    for row in read_runs(HERE / "runs.csv"):
        told = re.search(r"reserved ([\d.]+) GiB", row.text("notes"))
        if told is None or "mbc4" not in row.text("notes") or "llama" not in row.text("model"):
            continue
        if row.number("context") > 1 or row.number("virtual_pipeline") > 1:
            continue
        found = simulate(Scenario.of(scenario_of(row))).documents["summary"]["reserved_memory_bytes_max"]
        errors.append(found / (float(told[1]) * 2**30) - 1)
    assert len(errors) >= 5
    assert max(map(abs, errors)) < 0.03


def test_the_table_names_profiles_that_exist():
    for entry in known_runs().runs:
        assert entry.profile in FrameworkSpec.entries()


def test_the_readme_shows_it(request):
    before, rest = README.read_text(encoding="utf-8").split(START)
    shown, after = rest.split(END)
    table = memory_markdown(predictions())
    if request.config.getoption("--update-baselines"):
        README.write_text(before + START + table + END + after, encoding="utf-8")
        return
    assert shown == table, "run pytest tests/accuracy --update-baselines"
