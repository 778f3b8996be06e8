"""Changes that would make a step faster: the largest loss first, and what is left out is named."""

from __future__ import annotations

import pytest

import simcluster
from simcluster.errors import PlanError, ScenarioError
from simcluster.explanation import GivenExplanation, explain_scenario, explanation_document, explanation_text
from simcluster.explanation import speed_changes as module
from simcluster.explanation.bottleneck import bottleneck_text, step_parts_of
from simcluster.explanation.effort import LEFT_OUT, Effort
from simcluster.explanation.speed_changes import plans_by_simulating, tried_tips
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate
from simcluster.tuning import PresentRun, Trials

BUBBLY = {
    "simcluster": 1,
    "name": "bubbly",
    "cluster": {"use": "dgx-h100", "hosts": 1},
    "model": {"layers": 8, "hidden": 512, "heads": 8, "ffn": 2048, "vocab": 8_000},
    "training": {"global_batch": 4, "micro_batch": 1, "seq_len": 512, "precision": "bf16"},
    "parallel": {"mesh": {"pipeline": 4, "data": 2}},
}
"""Four stages and two micro-batches: little but waiting for one another."""


@pytest.fixture(scope="module")
def bubbly():
    scenario = Scenario.of(BUBBLY)
    return scenario, simulate(scenario)


def tried(bubbly, limit=None, watch=None, **options):
    scenario, run = bubbly
    present = PresentRun(scenario, run.documents["summary"], run.documents["plan"])
    effort = Effort(limit)
    return tried_tips(Trials(scenario.changed(()), effort.simulate), present, watch, **options)


def test_the_largest_loss_comes_first(bubbly):
    told = []
    tips, untried = tried(bubbly, watch=lambda kind, number, most: told.append((kind, number)), thorough=True)
    assert untried == []
    assert tips[0].kind in ("interleaved schedule", "zero-bubble schedule", "fewer stages", "uneven stages")
    assert [number for _, number in told] == list(range(1, len(tips) + 1))
    seen = [tip.kind for tip in tips]
    assert len(set(seen[: len(set(seen))])) == len(set(seen)), "every knob once, before any twice"


def test_what_is_left_out_is_named(bubbly, monkeypatch):
    tips, untried = tried(bubbly, limit=0.0)
    assert tips == []
    assert len(untried) > 4
    assert {change.why for change in untried} <= {LEFT_OUT, "it is planned by simulating"}
    monkeypatch.setattr(module, "MOST_TRIALS", 2)
    tips, untried = tried(bubbly)
    assert len(tips) == 2
    assert "2 others were tried" in {change.why for change in untried}


def test_effort_is_counted_before_anything_is_timed(bubbly):
    scenario, run = bubbly
    built = build_scenario(scenario)
    summary = run.documents["summary"]
    effort = Effort.of(built, summary)
    once = effort.of_run(built)
    assert summary["num_events"] < once < effort.done < 2 * once
    effort.limit = effort.done + once
    effort.simulate(scenario)
    assert effort.done == effort.limit
    with pytest.raises(PlanError, match=LEFT_OUT):
        effort.simulate(scenario)
    searched = scenario.changed([("parallel.recompute", "auto")])
    with pytest.raises(PlanError, match=LEFT_OUT):
        Effort(once, search=10 * once).simulate(searched)
    assert Effort.of(built, summary, thorough=True).allows(1e15)
    assert plans_by_simulating((("parallel.recompute", "auto"),))
    assert not plans_by_simulating((("parallel.recompute", "all"),))


def test_the_bottleneck_is_the_largest_part(bubbly):
    _, run = bubbly
    parts = step_parts_of(run.documents)
    assert sum(part.share for part in parts) == pytest.approx(1)
    assert parts[0].name == "pipeline wait"
    assert bottleneck_text(run.documents).startswith("The step is bound by the pipeline: stages wait")


def test_text_and_document(bubbly):
    scenario, _ = bubbly
    explanation = explain_scenario(scenario)
    text, document = explanation_text(explanation), explanation_document(explanation)
    assert "What would help most" in text
    assert document["better_hardware"][0]["factor"] == "compute"
    best = explanation.helping[0]
    again = simulate(scenario.changed(best.trial.changes)).documents["summary"]
    assert again["step_time_s"] == best.trial.step
    given = GivenExplanation(explanation)
    assert str(given) == text
    assert given.bottleneck == document["bottleneck"]
    assert given.critical_path["step_time_s"] == pytest.approx(document["step_time_s"])
    assert given.time_use["kernels"]
    assert given._repr_html_().startswith("<")
    with pytest.raises(ScenarioError):
        simcluster.explain("no-such-file.yaml")
