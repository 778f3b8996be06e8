"""Advice on small plans: a naive one becomes better, a good one stays, and what cannot be helped is said."""

from __future__ import annotations

import json

import pytest

import simcluster
from simcluster.advice import advice_document, advice_text, advise_scenario
from simcluster.cli.app import command_line
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from simcluster.workers import InlineExecutor, WorkerProcesses
from tests.support.scenario_texts import CRAMPED

SAVING = "parallel={mesh: {data: 8}, optimizer_sharding: {zero: 3}, recompute: all}"
"""A plan that leaves little to save."""

NAIVE = {
    "simcluster": 1,
    "name": "naive",
    "cluster": {"use": "dgx-h100", "hosts": 2},
    "model": {"layers": 8, "hidden": 2048, "heads": 16, "ffn": 8192, "vocab": 32_000},
    "training": {"global_batch": 32, "micro_batch": 1, "seq_len": 1024, "precision": "bf16"},
    "parallel": {
        "mesh": {"tensor": 8, "pipeline": 2},
        "recompute": "all",
    },
}
"""Tensor groups across hosts, everything computed again, and next to no memory in use."""

FUSED = {"reduce_scatter": {"mode": "auto"}}
GOOD = NAIVE | {
    "name": "good",
    "parallel": {"mesh": {"data": 16}, "optimizer_sharding": {"zero": 1}, "fusion": FUSED},
    "training": NAIVE["training"] | {"micro_batch": 2, "seq_len": 512},
}


def advised(spec, executor=None):
    return advise_scenario(Scenario.of(spec), executor or InlineExecutor())


@pytest.fixture(scope="module")
def naive():
    return advised(NAIVE)


def test_a_naive_plan_becomes_better(naive, monkeypatch):
    kinds = {tip.kind for tip in naive.gaining}
    assert {"axis order", "less recomputation", "less tensor parallelism"} <= kinds
    assert naive.best.step < 0.5 * naive.present.step
    assert naive.best.fits and not naive.hopeless
    # What is slowest then is looked for once more.
    first, second = naive.rounds
    assert second.present.step == first.best.step and second.tips
    assert naive.final.step <= naive.best.step
    says_the_same(naive, monkeypatch)


@pytest.mark.thorough
def test_figures_are_those_of_simulations(naive):
    assert simulate(Scenario.of(NAIVE).changed(naive.changes)).documents["summary"][
        "step_time_s"
    ] == pytest.approx(naive.final.step)
    for trial in (naive.best, naive.gaining[0].trial, naive.gaining[-1].trial):
        summary = simulate(Scenario.of(NAIVE).changed(trial.changes)).documents["summary"]
        assert summary["step_time_s"] == trial.step
        assert summary["peak_memory_bytes_max"] == trial.use.allocated


@pytest.mark.thorough
def test_what_gains_is_better_and_what_does_not_is_listed(naive):
    present = naive.present
    for tip in naive.gaining:
        assert tip.trial.fits
        assert tip.trial.step < present.step or tip.trial.use.needed < present.use.needed
    assert {*naive.gaining, *naive.idle, *naive.impossible} == set(naive.tips)
    assert len(naive.gaining) + len(naive.idle) + len(naive.impossible) == len(naive.tips)


def says_the_same(naive, monkeypatch):
    """Text and document have the same figures, and the text fits a screen of 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")
    text, document = advice_text(naive), json.loads(json.dumps(advice_document(naive)))
    assert all(len(line) <= 100 for line in text.splitlines())
    assert [tip["gains"] for tip in document["tips"] if "gains" in tip] == [True] * len(naive.gaining) + [
        False
    ] * len(naive.idle)
    assert document["together"]["step_time_s"] == naive.best.step
    for setting in document["together"]["set"]:
        assert f"--set '{setting}'" in text or f"--set {setting}" in text
    for tip in document["tips"]:
        assert tip["why"] and tip["source"]
        assert ("refused" in tip) != ("step_time_s" in tip)
    assert all(f"\n{tip.kind}: " in text for tip in naive.gaining)


@pytest.mark.thorough
def test_a_good_plan_gains_nothing():
    advice = advised(GOOD)
    assert not advice.gaining and advice.idle
    assert advice.best is advice.present
    assert advice.rounds == [advice] and advice.changes == ()
    text = advice_text(advice)
    assert "No change that was tried gains anything." in text
    assert "Tried, without a gain" in text and "Together" not in text
    assert advice_document(advice)["together"] is None


@pytest.mark.thorough
def test_a_plan_that_does_not_fit_is_made_to_fit():
    device = {"use": "h100-sxm", "reserved": "0 B", "communicator": "0 B", "memory": "600 MiB"}
    cluster = {"host": {"use": "dgx-h100", "devices": 8, "device": device}, "hosts": 2}
    advice = advised(NAIVE | {"cluster": cluster})
    assert not advice.present.fits
    assert any(tip.trial.fits for tip in advice.gaining)
    assert advice.best.fits and not advice.hopeless
    assert "it does not fit" in advice_text(advice)


@pytest.mark.thorough
def test_advice_from_python(naive):
    advice = simcluster.advise(Scenario.of(NAIVE), rounds=1, jobs=1)
    assert len(advice.rounds) == 1
    assert advice.final == naive.best and advice.changes == naive.best.changes
    assert advice.document["together"] == advice_document(naive)["together"]
    assert str(advice).startswith("naive\nNow:")


@pytest.mark.exhaustive
def test_processes_give_the_same(naive):
    with WorkerProcesses(2) as executor:
        assert advice_document(advised(NAIVE, executor)) == advice_document(naive)


@pytest.mark.thorough
def test_the_command(tmp_path, monkeypatch, capsys):
    """Memory that no tip makes enough: exit code 1, with what is nearest."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cramped.yaml").write_text(CRAMPED)
    assert command_line(["advise", "cramped.yaml", "--json", "--jobs", "1", "--set", SAVING]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["name"] == "small" and not document["present"]["fits"]
    assert document["tips"] and not any(tip.get("fits") for tip in document["tips"])
    assert command_line(["advise", "cramped.yaml", "--set", "training.mikro_batch=1"]) == 2
    assert "mikro_batch" in capsys.readouterr().err
