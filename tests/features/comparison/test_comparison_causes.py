"""Differences by cause: they sum to the difference of the steps; one scenario beside itself changed."""

from __future__ import annotations

import pytest

import simcluster
from simcluster.comparison import compared_files, side_by_side
from simcluster.errors import ScenarioError
from simcluster.report.comparison.causes import MOST_CAUSES, step_causes
from simcluster.simulation import simulate
from tests.support.scenario_texts import SMALL


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return str(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"parallel__recompute": "all"},
        {"training__micro_batch": 2},
        {"cluster__changes": "[{device: 0, compute: 0.5}]"},
    ],
)
def test_causes_sum_to_the_difference(small, changes):
    before, after = (simulate(simcluster.load(small, **some)).documents for some in ({}, changes))
    causes = step_causes(before, after)
    steps = [documents["summary"]["step_time_s"] for documents in (before, after)]
    assert sum(cause.change for cause in causes) == pytest.approx(steps[1] - steps[0], abs=1e-12)
    assert 0 < len(causes) <= MOST_CAUSES + 1
    told = [abs(cause.change) for cause in causes[:MOST_CAUSES]]
    assert told == sorted(told, reverse=True)


def test_equal_runs_have_no_causes(small):
    documents = simulate(simcluster.load(small)).documents
    assert step_causes(documents, documents) == []
    assert step_causes({"summary": documents["summary"]}, documents) == []


def test_one_scenario_beside_itself_changed(small):
    compared = compared_files([small], (), [("training.micro_batch", "1"), ("parallel.recompute", "all")])
    comparison = side_by_side(compared)
    assert [side.name.partition("  ")[2] for side in comparison.sides] == [
        f"({small})",
        "(training.micro_batch=1)",
        "(parallel.recompute=all)",
    ]
    assert list(comparison.document()["causes"]) == ["B", "C"]
    with pytest.raises(ScenarioError, match="name one file"):
        compared_files([small, small], (), [("training.micro_batch", "1")])
    with pytest.raises(ScenarioError, match="--vary"):
        compared_files([small], (), [])


def test_from_python(small, tmp_path):
    result = simcluster.simulate(small)
    found = simcluster.compare(result, simcluster.load(small, parallel__recompute="all"))
    assert "Why the step of B differs" in str(found)
    assert found._repr_html_().startswith("<div")
    result.save(tmp_path / "run.simrun")
    again = simcluster.compare(tmp_path / "run.simrun", small)
    assert again.document["causes"] == {"B": []}
    varied = simcluster.compare(small, vary={"training.micro_batch": [1, 2]})
    assert [side["letter"] for side in varied.document["results"]] == ["A", "B", "C"]
    with pytest.raises(ScenarioError, match="nothing to be compared with"):
        simcluster.compare(small)
    with pytest.raises(ScenarioError, match="no saved run"):
        simcluster.compare(result, vary={"training.micro_batch": [1]})
