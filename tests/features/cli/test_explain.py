"""explain: what it prints, its exit codes, and the hint at it."""

from __future__ import annotations

import json

from tests.support.scenario_texts import CRAMPED


def test_a_plan_that_fits(simcluster, small):
    code, out, _ = simcluster("explain", small)
    assert code == 0
    assert "It fits" in out
    assert "Alive at the peak of stage 0" in out


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
