"""The search against brute force, and what it does with limits, budgets and interruptions."""

from __future__ import annotations

import json
from concurrent.futures import BrokenExecutor

import pytest

import simcluster
from simcluster.errors import ScenarioError
from simcluster.search import Objective, PlanSearch, PlanSpace, search_document, search_text
from simcluster.search.planner import SharedScenario, simulate_plan
from simcluster.workers import InlineExecutor, Journal, WorkerProcesses
from tests.support.plan_spaces import SMALL_KEYS, mixed_scenario, small_scenario

SEEDS = [
    0,
    *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 7)),
    *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(7, 1000)),
]


def searched(scenario, over=("mesh",), **options):
    return PlanSearch(PlanSpace.of(scenario, over), **options).run(InlineExecutor())


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_is_the_best_of_all(seed):
    scenario = small_scenario(seed, devices=4 if seed > 20 and seed % 4 == 0 else 2)
    space = PlanSpace.of(scenario, SMALL_KEYS)
    all_figures = [
        simulate_plan((SharedScenario.of(scenario), space.changes_of(choice))) for choice in space.plans
    ]
    fitting = [figures for figures in all_figures if figures.fits(None)]
    objective = Objective.MEMORY if seed % 4 == 3 else Objective.STEP_TIME
    result = searched(scenario, SMALL_KEYS, objective=objective)
    assert result.is_proven
    assert objective.of(result.best.figures) == min(map(objective.of, fitting))


@pytest.fixture(scope="module")
def scenario():
    return small_scenario(devices=2)


def test_a_limit_that_no_plan_meets_names_the_nearest(scenario):
    result = searched(scenario, limit=0.001)
    assert result.best is None
    assert result.nearest is not None
    least = min(plan.figures.memory for plan in result.simulated if not plan.figures.refused)
    assert result.nearest.figures.memory == least
    text = " ".join(search_text(result).split())
    assert "No plan of the space fits; the nearest is" in text
    assert "of which plans may use 0.1 %" in text
    assert "too much" in text


def test_values_that_no_plan_has_are_said(scenario):
    result = PlanSearch(PlanSpace.of(scenario, ["micro_batch=1,3", "recompute=none"])).run(InlineExecutor())
    assert "1, 3 (no plan has 3:" in search_text(result)
    assert search_document(result)["idle_values"] == {"micro_batch": ["3"], "recompute": []}


def test_a_budget_answers_with_the_gap(scenario):
    result = searched(scenario, budget_s=1e-9)
    assert not result.is_proven
    assert result.simulated == ()
    whole = searched(scenario)
    assert whole.is_proven
    assert whole.gap == 0


def test_what_was_simulated_is_not_simulated_again(scenario, tmp_path, monkeypatch):
    with Journal(tmp_path / "journal", {"search": 1}) as journal:
        first = PlanSearch(PlanSpace.of(scenario, ["mesh"])).run(InlineExecutor(), journal)
    calls = []

    def counted(task):
        calls.append(task)
        return simulate_plan(task)

    monkeypatch.setattr("simcluster.search.planner.plan_search.simulate_plan", counted)
    with Journal(tmp_path / "journal", {"search": 1}) as journal:
        again = PlanSearch(PlanSpace.of(scenario, ["mesh"])).run(InlineExecutor(), journal)
    assert len(calls) == 1  # the scenario's own plan
    assert search_document(again) == search_document(first)


@pytest.mark.thorough
def test_any_executor_gives_the_same_answer(scenario):
    alone = search_document(searched(scenario))
    with WorkerProcesses(2) as processes:
        other = PlanSearch(PlanSpace.of(scenario, ["mesh"])).run(processes)
    assert search_document(other) == alone


def test_a_plan_that_is_lost_leaves_nothing_proven(scenario, monkeypatch):
    first = searched(scenario).best.choice

    def dying(task):
        if task[1] == PlanSpace.of(scenario, ["mesh"]).changes_of(first):
            raise BrokenExecutor("out of memory")
        return simulate_plan(task)

    monkeypatch.setattr("simcluster.search.planner.plan_search.simulate_plan", dying)
    result = searched(scenario)
    assert result.num_lost == 1
    assert not result.is_proven
    assert result.best.choice != first
    assert "1 plans died" in " ".join(search_text(result).split())


def test_a_cost_needs_a_price(scenario):
    with pytest.raises(ScenarioError, match="does not say what a device costs"):
        PlanSearch(PlanSpace.of(scenario, ["mesh"]), Objective.COST).check()
    priced = scenario.changed([("cluster.price", "2.50 USD per device-hour")])
    result = searched(priced, ["mesh"], objective=Objective.COST)
    best = search_document(result)["best"]
    devices = scenario.cluster.num_devices
    assert best["cost"] == pytest.approx(2.5 * devices * best["step_time_s"] / 3600)
    assert best["currency"] == "USD"


def test_unequal_devices_get_unequal_shares():
    mixed = mixed_scenario()
    result = searched(mixed, ["batch_shares"])
    equal, shared = sorted(result.simulated, key=lambda plan: plan.choice.batch_shares)
    assert result.best == shared and result.is_proven
    first, _, _, last = shared.choice.batch_shares
    assert first > last
    assert shared.figures.step_time_s < 0.7 * equal.figures.step_time_s
    # The scenario with it has the shares; a search of that goes back to equal ones where they do not fit.
    again = PlanSpace.of(result.scenario, ["mesh"])
    assert again.base == shared.choice
    assert all(not choice.batch_shares for choice in again.plans if choice.size("data") != 4)
    other = next(choice for choice in again.plans if choice.size("data") == 2)
    assert not result.scenario.changed(again.changes_of(other)).spec.training.batch_shares


def test_a_plan_from_python(scenario, tmp_path):
    """A search that is called, kept, and called again, is that of the planner; its plan is a scenario."""
    kept = tmp_path / "kept.journal"
    found = simcluster.find_plan(scenario, ["mesh"], keep=kept, jobs=1)
    again = simcluster.find_plan(scenario, ["mesh"], keep=kept, executor=InlineExecutor())
    assert found.document == again.document == search_document(searched(scenario))
    assert found.is_proven
    assert "Proven" in str(found)
    assert simcluster.simulate(found.scenario).step_time_s == found.best.figures.step_time_s
    with pytest.raises(ScenarioError, match="no objective 'speed'"):
        simcluster.find_plan(scenario, objective="speed")
    with pytest.raises(ScenarioError, match="give one of them"):
        simcluster.find_plan(scenario, ["mesh"], executor=InlineExecutor(), jobs=2)


def test_a_price_that_is_none(scenario):
    with pytest.raises(ScenarioError, match="is not a price"):
        scenario.changed([("cluster.price", "cheap")])


def test_the_document_has_a_reason_for_every_plan_that_lost(scenario):
    document = search_document(searched(scenario))
    json.dumps(document)
    first, *others = document["plans"]
    assert first["reason"] == ""
    assert all(plan["reason"] for plan in others)
    assert document["num_plans"] >= document["num_simulated"]
