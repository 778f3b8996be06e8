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
    assert "Why the step of C differs" in out
    code, _, err = simcluster("compare", small, small, "--vary", "run.seed=3")
    assert code == 2
    assert "name one file" in err
    code, _, err = simcluster("compare", small, "--vary", "training.nothing=3")
    assert code == 2
    assert "--vary" in err


def test_jobs_of_two_policies(simcluster, here, small):
    job = (
        "job={steps: 100000, failures: {events: [{at: 1 s, host: 0}]}, "
        "recovery: {spares: 1, checkpoint: {every: 10, save: 1 ms, load: 1 ms}}}"
    )
    policies = ("--vary", "job.recovery.policy=restart,spare")
    code, out, _ = simcluster("compare", small, "--set", job, *policies, "--html", "page.html")
    assert code == 0
    assert "goodput of the job" in out and "Where the time of the job goes" in out
    assert "Where the time of the jobs goes" in (here / "page.html").read_text()
    code, out, _ = simcluster("compare", small, "--set", job, *policies, "--json")
    document = json.loads(out)
    assert document["job_s"]["replace hosts"] == [300.0, 300.0, 0.0]
    assert document["figures"]["interruptions of the job"] == [1.0] * 3


def test_changes_by_a_framework_profile_are_counted(simcluster, small):
    varied = ("compare", "small.yaml", "--vary", "framework=ideal,megatron-core")
    code, out, _ = simcluster(*varied)
    assert code == 0
    assert "changes of its own; -v lists them" in " ".join(out.split())
    assert "gradients reduced after the backward" not in " ".join(out.split())
    code, out, _ = simcluster(*varied, "-v")
    assert code == 0
    assert "gradients reduced after the backward" in " ".join(out.split())
