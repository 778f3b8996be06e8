"""explain: what it prints, its exit codes, and the hint at it."""

from __future__ import annotations

import json

import pytest

from tests.support.scenario_texts import CRAMPED


def test_a_plan_that_does_not(simcluster, here):
    path = "cramped.yaml"
    (here / path).write_text(CRAMPED)
    code, out, _ = simcluster("explain", path, "--json")
    told = json.loads(out)
    assert not told["fits"]
    assert code == (0 if any(each["fits"] for each in told["changes"]) else 1)
    code, _, err = simcluster("run", path)
    assert code == 1
    assert f"simcluster explain {path}" in err


def test_a_plan_that_fits(simcluster, small, monkeypatch):
    monkeypatch.setattr("simcluster.explanation.speed_changes.MOST_TRIALS", 1)
    code, out, _ = simcluster("explain", small)
    assert code == 0
    for words in ("The step is bound by", "Kernels", "Operators", "Critical path", "by stage", "10 % better"):
        assert words in out
    assert "Not tried here" in out
    assert "It fits" in out
    assert "Alive at the peak of stage 0" in out


def test_json_has_the_path_with_slack(simcluster, small, monkeypatch):
    monkeypatch.setattr("simcluster.explanation.speed_changes.MOST_TRIALS", 1)
    code, out, _ = simcluster("explain", small, "--json")
    told = json.loads(out)
    assert code == 0
    assert told["untried"][0]["set"]
    assert sum(part["share"] for part in told["parts"]) == pytest.approx(1)
    path = told["critical_path"]
    assert sum(kind["seconds"] for kind in path["kinds"]) == pytest.approx(told["step_time_s"])
    assert all(entry["slack"] for entry in path["stages"])
