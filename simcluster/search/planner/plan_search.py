"""The search for the best plan of a space: bounds first, then simulation of the most promising plans.

Plans are simulated in the order of their bounds. As soon as the bound of the next one is above the best value
that was simulated, no plan that is left can win: the best one is the best of the whole space, by the
simulator.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import field

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import ScenarioError
from simcluster.scenario import Scenario
from simcluster.search.bounds import PlanBound
from simcluster.search.planner.bounded_plans import BoundedPlan, BoundedSpace, bound_space
from simcluster.search.planner.objective import Objective
from simcluster.search.planner.plan_figures import PlanFigures, simulate_plan
from simcluster.search.planner.shared_scenario import SharedScenario
from simcluster.search.space import PlanChoice, PlanSpace
from simcluster.tuning import Changes
from simcluster.workers import Failure, Journal, run_all


@dataclass(frozen=True, slots=True)
class SimulatedPlan:
    """A plan of the space that was simulated."""

    choice: PlanChoice
    figures: PlanFigures
    bound: PlanBound

    @property
    def least_s(self) -> float:
        """Seconds that a step was known to take at least."""
        return self.bound.time_ns * 1e-9

    @property
    def least_memory(self) -> int:
        """Bytes that a device was known to need at least."""
        return self.bound.memory


@dataclass(frozen=True)
class SearchResult:
    """The best plan of a space and what it took to find it."""

    space: PlanSpace
    """What was searched."""
    objective: Objective
    """What was to be least."""
    limit: float | None
    """The share of a device's memory that plans may need; None: by the usual rule."""
    budget_s: float | None
    """Seconds after which no further plan was begun."""
    bounded: BoundedSpace
    """All plans with their bounds."""
    num_too_large: int
    """Plans whose bound of memory is above the limit."""
    simulated: tuple[SimulatedPlan, ...]
    """Plans that were simulated, in the order of their bounds; where the best is proven, those that could
    have won against it."""
    num_lost: int
    """Plans whose simulation ended with its process, for want of memory or by a signal."""
    own: PlanFigures | None
    """The scenario's own plan; None if its process died."""
    is_proven: bool
    """Whether no plan that is left can be better."""
    left_bound: float | None
    """The least value that any plan that was not simulated may have; None if all were."""
    first_s: float | None
    """Seconds until the best plan was known."""
    bound_s: float
    """Seconds for the bounds of all plans."""
    wall_s: float
    """Seconds altogether."""

    @property
    def fitting(self) -> list[SimulatedPlan]:
        """Simulated plans that fit, the best first; of equally good ones that with less memory."""
        fitting = [plan for plan in self.simulated if plan.figures.fits(self.limit)]
        return sorted(fitting, key=lambda plan: (self.objective.of(plan.figures), plan.figures.memory))

    @property
    def failing(self) -> list[SimulatedPlan]:
        """Simulated plans that do not: the nearest to fitting first, impossible ones last."""
        failing = [plan for plan in self.simulated if not plan.figures.fits(self.limit)]
        return sorted(failing, key=lambda plan: (plan.figures.refused, plan.figures.lacking(self.limit)))

    @property
    def best(self) -> SimulatedPlan | None:
        """The best plan that fits; None if none does."""
        return next(iter(self.fitting), None)

    @property
    def scenario(self) -> Scenario | None:
        """The scenario with the best plan; None if none fits."""
        if self.best is None:
            return None
        return self.space.scenario.changed(self.space.changes_of(self.best.choice))

    @property
    def front(self) -> list[SimulatedPlan]:
        """Of the plans that fit those that no other beats in time and memory, the fastest first."""
        front: list[SimulatedPlan] = []
        for plan in sorted(self.fitting, key=lambda plan: (plan.figures.step_time_s, plan.figures.memory)):
            if not front or plan.figures.memory < front[-1].figures.memory:
                front.append(plan)
        return front

    @property
    def gap(self) -> float:
        """By which part of its value the best may miss the best of the space; 0 where it is proven."""
        if self.is_proven or self.best is None or self.left_bound is None:
            return 0.0
        value = self.objective.of(self.best.figures)
        return max(0.0, 1 - self.left_bound / value) if value else 0.0

    @property
    def nearest(self) -> SimulatedPlan | None:
        """Of possible plans that do not fit the one that lacks least memory."""
        return next((plan for plan in self.failing if not plan.figures.refused), None)

    @property
    def currency(self) -> str:
        """What the cluster is paid in; empty where that is not said."""
        price = self.space.scenario.spec.cluster.rate
        return "" if price is None else price.currency

    def cost_of(self, figures: PlanFigures) -> float | None:
        """What a step costs; None where the cluster has no price."""
        price = self.space.scenario.spec.cluster.rate
        if price is None:
            return None
        return price.per_device_hour * self.space.setting.num_devices * figures.step_time_s / 3600


@dataclass
class PlanSearch:
    """A search; ``limit`` is the share of a device's memory that plans may need, None: by the usual rule."""

    space: PlanSpace
    objective: Objective = Objective.STEP_TIME
    limit: float | None = None
    budget_s: float | None = None
    """Seconds after which no further plan is begun."""
    watch: Callable[[int], None] | None = None
    """Called with the number of plans that have been simulated."""

    def run(self, executor: Executor, journal: Journal | None = None) -> SearchResult:
        """Searches on an executor; results that the journal keeps are not worked out again.

        Raises ScenarioError for an empty space, and where the cost is asked for without a price.
        """
        began = time.monotonic()
        self.check()
        allowed = self._allowed()
        shared = SharedScenario.of(self.space.scenario)
        bounded = bound_space(self.space, shared, allowed, executor)
        small = [plan for plan in bounded.plans if plan.bound.memory <= allowed]
        # If nothing can fit, the plans that need least memory say by how much, and close bounds find them.
        if bounded.plans and not small:
            bounded = bound_space(self.space, shared, allowed, executor, math.inf)
        bound_s = time.monotonic() - began
        own = executor.submit(simulate_plan, (shared, ()))
        objective = self.objective if small else Objective.MEMORY
        chosen = sorted(small or bounded.plans, key=lambda plan: objective.bound(plan.bound))
        queue = _Queue(self, shared, objective, chosen, began, is_hopeless=not small)
        queue.work(executor, journal)
        left = queue.left
        is_proven = queue.is_over and not queue.num_lost
        return SearchResult(
            space=self.space,
            objective=self.objective,
            limit=self.limit,
            budget_s=self.budget_s,
            bounded=bounded,
            num_too_large=len(bounded.plans) - len(small) if small else 0,
            simulated=queue.needed if is_proven else queue.in_order,
            num_lost=queue.num_lost,
            own=_figures(_outcome_of(own)),
            is_proven=is_proven,
            left_bound=objective.bound(left[0].bound) if left else None,
            first_s=queue.first_s,
            bound_s=bound_s,
            wall_s=time.monotonic() - began,
        )

    def check(self) -> None:
        """Raises ScenarioError for an empty space, and where the cost is asked for without a price."""
        _ = self.space.plans  # raises where there are none
        if self.objective is Objective.COST and self.space.scenario.spec.cluster.price is None:
            raise ScenarioError(
                "--objective cost: the scenario does not say what a device costs",
                path="cluster.price",
                hint="write cluster.price: 2.50 USD per device-hour",
            )

    def _allowed(self) -> float:
        """The most bytes that any device may hold."""
        memories = [host.device.memory for host in self.space.scenario.cluster.kinds]
        return max(memories) * (1.0 if self.limit is None else self.limit)


@dataclass
class _Queue:
    """Plans in the order of their bounds, handed out as long as they can win."""

    search: PlanSearch
    shared: SharedScenario
    objective: Objective
    plans: list[BoundedPlan]
    began: float
    is_hopeless: bool
    """Whether no plan can fit: then the one that lacks least is looked for."""
    simulated: dict[int, SimulatedPlan] = field(default_factory=dict)
    first_s: float | None = None
    best: float | None = None
    num_lost: int = 0
    """Plans whose simulation ended with its process."""
    _next: int = 0

    def work(self, executor: Executor, journal: Journal | None) -> None:
        """Simulates plans until none that is left can win, or the budget is spent."""
        handed: list[int] = []

        def tasks() -> Iterator[tuple[SharedScenario, Changes]]:
            while (index := self._take(journal)) is not None:
                handed.append(index)
                yield self.shared, self.search.space.changes_of(self.plans[index].choice)

        for place, outcome in run_all(simulate_plan, tasks(), executor):
            figures = _figures(outcome)
            if figures is None:
                self.num_lost += 1
                continue
            if journal is not None:
                journal.add(handed[place], figures.document())
            self._add(handed[place], figures)

    @property
    def in_order(self) -> tuple[SimulatedPlan, ...]:
        """Plans that were simulated, in the order of their bounds."""
        return tuple(self.simulated[index] for index in sorted(self.simulated))

    @property
    def needed(self) -> tuple[SimulatedPlan, ...]:
        """Those of them that could have won against the best: the same with any number of workers."""
        best = math.inf if self.best is None else self.best
        return tuple(plan for plan in self.in_order if self.objective.bound(plan.bound) <= best)

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
        """The next plan to simulate; None if none is left that can win, or the budget is spent: for good."""
        while self._can_go_on:
            index = self._next
            self._next += 1
            if journal is None or index not in journal.kept:
                return index
            self._add(index, PlanFigures(**journal.kept[index]))
        return None

    def _add(self, index: int, figures: PlanFigures) -> None:
        plan = self.plans[index]
        self.simulated[index] = SimulatedPlan(plan.choice, figures, plan.bound)
        if self.search.watch is not None:
            self.search.watch(len(self.simulated))
        if figures.refused or not (self.is_hopeless or figures.fits(self.search.limit)):
            return
        value = self.objective.of(figures)
        if self.best is None or value < self.best:
            self.best, self.first_s = value, time.monotonic() - self.began


def _figures(outcome: PlanFigures | Failure) -> PlanFigures | None:
    """The figures of a call; None if its process died each time, for want of memory or by a signal."""
    if isinstance(outcome, Failure):
        if outcome.is_worker_lost:
            return None
        raise outcome.error
    return outcome


def _outcome_of(future: Future[PlanFigures]) -> PlanFigures | Failure:
    error = future.exception()
    return future.result() if error is None else Failure(error)
