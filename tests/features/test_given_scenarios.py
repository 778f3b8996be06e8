"""Functions take a scenario in every form: itself, its file, plain data, a sharded graph."""

from __future__ import annotations

import pytest

import simcluster
from simcluster.errors import ScenarioError

DATA = {
    "simcluster": 1,
    "name": "as data",
    "cluster": {"use": "dgx-h100", "hosts": 1},
    "model": {"layers": 2, "hidden": 256, "heads": 4, "ffn": 512, "vocab": 1_000},
    "training": {"global_batch": 16, "micro_batch": 1, "seq_len": 128, "precision": "bf16"},
    "parallel": {"mesh": {"data": 8}},
}


@pytest.fixture(scope="module")
def step():
    return simcluster.simulate(DATA).step_time_s


def test_questions_about_one_plan(step):
    assert simcluster.explain(DATA).explanation.present.step == step
    assert simcluster.whatif(DATA).answer.present == step


def test_comparisons(step):
    twice = DATA | {"name": "twice", "training": DATA["training"] | {"micro_batch": 2}}
    compared = simcluster.compare(DATA, twice, simcluster.simulate(DATA), simcluster.graph(DATA))
    steps = [sum(part[number] for part in compared.document["step_s"].values()) for number in range(4)]
    assert steps[0] == steps[2] == steps[3] == pytest.approx(step) != steps[1]
    assert len(simcluster.compare(DATA, vary={"training.micro_batch": [2]}).document["results"]) == 2


@pytest.mark.thorough
def test_many_simulations(step):
    swept = simcluster.sweep(DATA, {"training.micro_batch": [1, 2]}, jobs=1)
    assert swept.rows[0]["step_time_s"] == step
    plan = simcluster.find_plan(DATA, ["micro_batch=1,2"], jobs=1)
    assert plan.best is not None
    assert plan.best.figures.step_time_s <= step
    advice = simcluster.advise(DATA, rounds=1, jobs=1)
    assert advice.rounds[0].present.step == step


def test_checks_know_plain_data_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ScenarioError, match="update=True"):
        simcluster.check(DATA)
    assert simcluster.check(DATA, update=True).written
    assert simcluster.check([DATA])
    slower = simcluster.check(simcluster.Scenario.of(DATA), changes=[("training.seq_len", "256")])
    assert not slower
    assert slower.outcomes[0].key == "as data"
    assert "the same with update=True" in str(slower)
    with pytest.raises(ScenarioError, match="two scenarios 'as data'"):
        simcluster.check([DATA, DATA])
    with pytest.raises(ScenarioError, match="a commit has files"):
        simcluster.check(DATA, against="main")


def test_every_answer_is_one_short_line_in_a_prompt():
    answers = [
        simcluster.graph(DATA),
        simcluster.explain(DATA),
        simcluster.whatif(DATA),
        simcluster.compare(DATA, DATA),
        simcluster.advise(DATA, jobs=1),
        simcluster.find_plan(DATA, "mesh,micro_batch=1,2", jobs=1),
        simcluster.sweep(DATA, {"training.micro_batch": [1]}, jobs=1),
        simcluster.verify(DATA),
    ]
    for answer in answers:
        assert "\n" not in repr(answer) and len(repr(answer)) < 300, type(answer)


@pytest.mark.parametrize("given", [5, None, ["small.yaml"]])
def test_what_is_no_scenario_is_refused_in_words(given):
    with pytest.raises(ScenarioError, match="is no scenario"):
        simcluster.simulate(given)
