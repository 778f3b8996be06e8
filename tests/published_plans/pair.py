"""A model on a machine, the plans that were published for it, and the one that the search finds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from simcluster.accuracy import MeasuredRun
from simcluster.accuracy.runs import scenario_of
from simcluster.errors import SimclusterError
from simcluster.scenario import Scenario
from simcluster.search import PlanFigures, PlanSearch, PlanSpace, SearchResult
from simcluster.search.planner import SharedScenario, simulate_plan

OVER = ("mesh", "micro_batch", "chunks", "optimizer_sharding", "recompute")

_SAME = (
    "framework",
    "model",
    "layers",
    "hidden",
    "seq_len",
    "hardware",
    "num_devices",
    "global_batch",
    "precision",
)
"""Columns that are held as published."""


@dataclass(frozen=True)
class PublishedPlan:
    """A published plan, its measured step in seconds, and what the simulator says of it."""

    name: str
    measured: float
    scenario: Scenario
    figures: PlanFigures

    @property
    def fits(self) -> bool:
        """Whether it fits in the simulator."""
        return self.figures.fits(None)


@dataclass(frozen=True)
class Pair:
    """The plans of one model on one machine, and what a search of its space found."""

    title: str
    published: Sequence[PublishedPlan]
    found: SearchResult

    @property
    def hand_tuned(self) -> PublishedPlan:
        """The published plan that was measured to be fastest."""
        return min(self.published, key=lambda plan: plan.measured)

    @property
    def found_s(self) -> float:
        """The simulated step of the plan that the search answers with."""
        own, best = self.found.own, self.found.best
        if self.is_own:
            assert own is not None, "it is the best"
            return own.step_time_s
        return math.inf if best is None else best.figures.step_time_s

    @property
    def is_own(self) -> bool:
        """Whether no plan that was searched is as fast as the scenario's own, which fits."""
        own, best = self.found.own, self.found.best
        if own is None or not own.fits(None):
            return False
        return best is None or own.step_time_s < best.figures.step_time_s

    @property
    def holds(self) -> bool:
        """Whether the plan found takes at most as long as the published one, wherever that fits."""
        return not self.hand_tuned.fits or self.found_s <= self.hand_tuned.figures.step_time_s

    @property
    def is_published(self) -> bool:
        """Whether what was found is as fast as the published plan, to a thousandth."""
        return self.hand_tuned.fits and self.found_s >= 0.999 * self.hand_tuned.figures.step_time_s

    @property
    def regret(self) -> float | None:
        """By how much longer the published plan that the simulator prefers was measured to take than the
        fastest; None where only one was published that fits.
        """
        fitting = [plan for plan in self.published if plan.fits]
        if len(fitting) < 2:
            return None
        chosen = min(fitting, key=lambda plan: plan.figures.step_time_s)
        return chosen.measured / min(plan.measured for plan in fitting) - 1


def plans_of(runs: Sequence[MeasuredRun], name: str) -> list[PublishedPlan]:
    """All plans of the table for the model and the machine of one row, each once, simulated."""
    row = next(run for run in runs if run.name == name)
    alike = [run for run in runs if all(run.words[column] == row.words[column] for column in _SAME)]
    plans: list[PublishedPlan] = []
    known: list[object] = []
    for run in sorted(alike, key=lambda run: run.step_seconds or 0.0):
        if run.step_seconds is None:
            continue
        try:
            data = scenario_of(run).data
            scenario = Scenario.of(data)
        except SimclusterError:
            continue
        if (data["parallel"], data["training"]) not in known:
            known.append((data["parallel"], data["training"]))
            figures = simulate_plan((SharedScenario.of(scenario), ()))
            plans.append(PublishedPlan(run.name, run.step_seconds, scenario, figures))
    return plans


def searched(runs: Sequence[MeasuredRun], name: str, budget_s: float, executor: Executor) -> Pair:
    """The pair of a row; ValueError where no plan of it can be simulated."""
    published = plans_of(runs, name)
    if not any(not plan.figures.refused for plan in published):
        raise ValueError(f"{name}: no published plan can be simulated")
    best = min(published, key=lambda plan: plan.measured)
    space = PlanSpace.of(best.scenario, OVER)
    row = next(run for run in runs if run.name == name)
    title = f"{row.words['model']} on {row.words['num_devices']} x {row.words['hardware']}"
    return Pair(title, published, PlanSearch(space, budget_s=budget_s).run(executor))
