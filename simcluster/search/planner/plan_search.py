"""The search for the best plan of a space: bounds first, then simulation of the most promising plans.

Plans are simulated in the order of their bounds. As soon as the bound of the next one is above the best value
that was simulated, no plan that is left can win: the best one is the best of the whole space, by the
simulator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from simcluster.scenario import Scenario
from simcluster.search.planner.bounded_plans import BoundedPlan, BoundedSpace, bound_space
from simcluster.search.planner.objective import Objective
from simcluster.search.planner.plan_figures import PlanFigures, simulate_plan
from simcluster.search.space import PlanChoice, PlanSpace
from simcluster.tuning import Changes
from simcluster.workers import Failure, Journal, run_all


@dataclass(frozen=True, slots=True)
class SimulatedPlan:
    """A plan of the space that was simulated."""

    choice: PlanChoice
    figures: PlanFigures
    bound: float
    """The least value of the objective that it could have had."""


@dataclass(frozen=True)
class SearchResult:
    """The best plan of a space and what it took to find it."""

    space: PlanSpace
    objective: Objective
    limit: float | None
    bounded: BoundedSpace
    num_too_large: int
    """Plans whose bound of memory is above the limit."""
    simulated: tuple[SimulatedPlan, ...]
    """Plans that were simulated, in the order of their bounds."""
    is_proven: bool
    """Whether no plan that is left can be better."""
    left_bound: float | None
    """The least value that any plan that was not simulated may have; None if all were."""
    first_s: float | None
    """Seconds until the best plan was known."""
    wall_s: float

    @property
    def fitting(self) -> list[SimulatedPlan]:
        """Simulated plans that fit, the best first."""
        fitting = [plan for plan in self.simulated if plan.figures.fits(self.limit)]
        return sorted(fitting, key=lambda plan: (self.objective.of(plan.figures), plan.figures.memory))

    @property
    def best(self) -> SimulatedPlan | None:
        """The best plan that fits; None if none does."""
        return next(iter(self.fitting), None)

    @property
    def gap(self) -> float:
        """By which part of its value the best may miss the best of the space; 0 where it is proven."""
        if self.is_proven or self.best is None or self.left_bound is None:
            return 0.0
        value = self.objective.of(self.best.figures)
        return max(0.0, 1 - self.left_bound / value) if value else 0.0

    @property
    def nearest(self) -> SimulatedPlan | None:
        """Of possible plans the one that lacks least memory."""
        possible = [plan for plan in self.simulated if not plan.figures.refused]
        return min(possible, key=lambda plan: plan.figures.lacking(self.limit), default=None)


@dataclass
class PlanSearch:
    """A search; ``limit`` is the share of a device's memory that plans may need, None: by the usual rule."""

    space: PlanSpace
    objective: Objective = Objective.STEP_TIME
    limit: float | None = None
    budget_s: float | None = None
    """Seconds after which no further plan is begun."""
    watch: Callable[[str, int, int], None] | None = None
    """Called with a phase (bounds, plans), how many are done, and how many are known to be needed."""

    def run(self, executor: Executor, journal: Journal | None = None) -> SearchResult:
        """Searches on an executor; results that the journal keeps are not worked out again."""
        began = time.monotonic()
        allowed = self._allowed()
        bounded = bound_space(self.space, allowed, executor)
        small = [plan for plan in bounded.plans if plan.bound.memory <= allowed]
        order = sorted(range(len(small)), key=lambda index: (self.objective.bound(small[index].bound), index))
        # If nothing can fit, the plans that need least memory say by how much.
        objective = self.objective if small else Objective.MEMORY
        chosen = [small[index] for index in order] if small else self._smallest(bounded.plans)
        queue = _Queue(self, objective, chosen, began, is_hopeless=not small)
        queue.work(executor, journal)
        left = queue.left
        best = queue.best
        return SearchResult(
            self.space,
            self.objective,
            self.limit,
            bounded,
            len(bounded.plans) - len(small),
            tuple(queue.simulated[index] for index in sorted(queue.simulated)),
            queue.is_over and (best is not None or not left),
            objective.bound(left[0].bound) if left else None,
            queue.first_s,
            time.monotonic() - began,
        )

    def _allowed(self) -> float:
        """The most bytes that any device may hold."""
        memories = [host.device.memory for host in self.space.scenario.cluster.kinds]
        return max(memories) * (1.0 if self.limit is None else self.limit)

    def _smallest(self, plans: Sequence[BoundedPlan]) -> list[BoundedPlan]:
        return sorted(plans, key=lambda plan: plan.bound.memory)


@dataclass
class _Queue:
    """Plans in the order of their bounds, handed out as long as they can win."""

    search: PlanSearch
    objective: Objective
    plans: list[BoundedPlan]
    began: float
    is_hopeless: bool
    """Whether no plan can fit: then the one that lacks least is looked for."""
    simulated: dict[int, SimulatedPlan] = field(default_factory=dict)
    first_s: float | None = None
    best: float | None = None
    _next: int = 0

    def work(self, executor: Executor, journal: Journal | None) -> None:
        """Simulates plans until none that is left can win, or the budget is spent."""
        scenario = self.search.space.scenario
        handed: list[int] = []

        def tasks() -> Iterator[tuple[Scenario, Changes]]:
            while True:
                index = self._take(journal)
                if index is None:
                    return
                handed.append(index)
                p2p = scenario.spec.parallel.schedule.p2p
                yield scenario, self.plans[index].choice.changes(p2p)

        while self._can_go_on:
            for place, outcome in run_all(simulate_plan, _Again(tasks), executor):
                figures = _figures(outcome)
                if journal is not None:
                    journal.add(handed[place], figures.document())
                self._add(handed[place], figures)

    @property
    def left(self) -> list[BoundedPlan]:
        """Plans that were not simulated."""
        return self.plans[self._next :]

    @property
    def is_over(self) -> bool:
        """Whether no plan that is left can win."""
        if self._next >= len(self.plans):
            return True
        return self.best is not None and self.objective.bound(self.plans[self._next].bound) > self.best

    @property
    def _can_go_on(self) -> bool:
        return not self.is_over and not self._is_late

    @property
    def _is_late(self) -> bool:
        budget = self.search.budget_s
        return budget is not None and time.monotonic() - self.began > budget

    def _take(self, journal: Journal | None) -> int | None:
        """The next plan to simulate; None if there is none for now."""
        while self._can_go_on:
            index = self._next
            self._next += 1
            if journal is None or index not in journal.kept:
                return index
            self._add(index, PlanFigures(**journal.kept[index]))
        return None

    def _add(self, index: int, figures: PlanFigures) -> None:
        plan = self.plans[index]
        bound = self.objective.bound(plan.bound)
        self.simulated[index] = SimulatedPlan(plan.choice, figures, bound)
        if self.search.watch is not None:
            self.search.watch("plans", len(self.simulated), len(self.plans))
        if figures.refused or not (self.is_hopeless or figures.fits(self.search.limit)):
            return
        value = self.objective.of(figures)
        if self.best is None or value < self.best:
            self.best, self.first_s = value, time.monotonic() - self.began


@dataclass
class _Again:
    """An iterator that may have more after it had none: plans are left as results change what can win."""

    make: Callable[[], Iterator[tuple[Scenario, Changes]]]

    def __iter__(self) -> _Again:
        return self

    def __next__(self) -> tuple[Scenario, Changes]:
        return next(self.make())


def _figures(outcome: PlanFigures | Failure) -> PlanFigures:
    if isinstance(outcome, Failure):
        if outcome.is_worker_lost:
            return PlanFigures(refused="the process that simulated it died, for want of memory or by a signal")
        raise outcome.error
    return outcome
