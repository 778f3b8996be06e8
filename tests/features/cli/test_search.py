"""``simcluster search``: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json

import pytest

from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from tests.support.scenario_texts import CRAMPED

QUICK = ("--jobs", "1", "--over", "mesh")


def test_the_best_plan_is_shown_and_written(simcluster, small, here):
    code, out, err = simcluster("search", small, *QUICK, "-o", "best.yaml", "--json", "search.json")
    assert code == 0
    assert "Proven: no other plan of the space can be better" in " ".join(out.split())
    assert "Pareto front" in out
    assert err.count("written: best.yaml") == 1
    document = json.loads((here / "search.json").read_text())
    best = document["best"]
    assert document["proven"]
    assert all(0 < plan["least_step_time_s"] <= plan["step_time_s"] for plan in document["plans"])
    run = simulate(Scenario.load("best.yaml"))
    assert run.documents["summary"]["step_time_s"] == best["step_time_s"]
    assert (here / "best.yaml").read_text().startswith("# Found by simcluster search")


def test_an_interrupted_search_goes_on(simcluster, small, here):
    first = simcluster("search", small, *QUICK, "--keep", "plans")
    again = simcluster("search", small, *QUICK, "--keep", "plans")
    assert first.code == again.code == 0
    kept = (here / "plans").read_text().splitlines()
    assert len(kept) > 1
    code, _, err = simcluster("search", small, "--jobs", "1", "--over", "micro_batch", "--keep", "plans")
    assert code == 2
    assert "--restart" in err


def test_a_limit_that_nothing_meets(simcluster, here):
    (here / "cramped.yaml").write_text(CRAMPED)
    code, out, _ = simcluster("search", "cramped.yaml", *QUICK, "--limit-memory", "0.01")
    assert code == 1
    assert "No plan of the space fits; the nearest is" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--over", "mehs"), "did you mean 'mesh'?"),
        (("--over", "micro_batch=x"), "'x' is not a whole number"),
        (("--objective", "speed"), "no such objective"),
        (("--objective", "cost"), "cluster.price: 2.50 USD per device-hour"),
        (("--budget", "soon"), "--budget soon"),
        (("--budget", "-1s"), "--budget -1s"),
    ],
)
def test_what_is_refused(simcluster, small, here, arguments, message):
    code, out, err = simcluster("search", small, *arguments)
    assert (code, out) == (2, "")
    assert message in err
