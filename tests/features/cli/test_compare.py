"""compare: what it takes, what it writes, its exit codes."""

from __future__ import annotations

import json

from tests.support.scenario_texts import CRAMPED, SMALL


def other(here):
    (here / "other.yaml").write_text(SMALL.replace("small", "other", 1))
    return "other.yaml"


def test_scenarios_and_saved_runs(simcluster, here, small):
    assert simcluster("run", small, "--out", "saved", "-q").code == 0
    code, out, _ = simcluster("compare", "saved/run.simrun", other(here), "--html", "page.html")
    assert code == 0
    assert "Where the step goes" in out
    assert "B: 1.00 x the speed of A" in out
    assert (here / "page.html").read_text().startswith("<!doctype html>")


def test_settings_change_every_scenario(simcluster, here, small):
    (here / "plain.json").write_text("")
    code, out, _ = simcluster("compare", small, other(here), "--set", "parallel.recompute=all", "--json")
    assert code == 0
    assert json.loads(out)["differences"] == {}


def test_what_does_not_fit(simcluster, here, small):
    (here / "cramped.yaml").write_text(CRAMPED)
    code, out, _ = simcluster("compare", small, "cramped.yaml")
    assert code == 1
    assert "DOES NOT FIT" in out


def test_wrong_input(simcluster, here, small):
    assert simcluster("compare", small).code == 2
    code, _, err = simcluster("compare", "no.yaml", "neither.yaml")
    assert code == 2
    assert "no.yaml" in err and "neither.yaml" in err
    simcluster("run", small, "--out", "saved", "-q")
    code, _, err = simcluster("compare", *["saved/run.simrun"] * 2, "--set", "cluster.hosts=2")
    assert code == 2
    assert "saved runs cannot be changed" in err
    assert simcluster("compare", small, small, "--html", ".").code == 2


def test_one_scenario_beside_itself_changed(simcluster, small):
    code, out, _ = simcluster("compare", small, "--vary", "training.micro_batch=1,2", "--vary", "run.seed=3")
    assert code == 0
    assert "(training.micro_batch=2)" in out
    assert "D:" in out
    assert "What makes the step of C another one" in out
    code, _, err = simcluster("compare", small, small, "--vary", "run.seed=3")
    assert code == 2
    assert "name one file" in err
    code, _, err = simcluster("compare", small, "--vary", "training.nothing=3")
    assert code == 2
    assert "--vary" in err
