"""MindSpore's dynamic programming: the least cost of a stage's network, by eliminations of its cost graph.

The stages of a pipeline are searched one after the other, each on its own devices; what crosses a border is
priced by the strategies of the stage before.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import ClassVar

from simcluster import units
from simcluster.errors import PlanError
from simcluster.plan.auto.cost_table import CostTable
from simcluster.plan.auto.elimination import TableTooLargeError
from simcluster.plan.auto.memory_limit import NothingFits, best_within
from simcluster.plan.auto.stage_problem import StageProblem, TableCache, WeightedSolver
from simcluster.plan.auto.strategy_search import PATH, SearchOutcome, SearchProblem, StrategySearch


class DynamicProgramming(StrategySearch):
    """Optimal under the cost model where the memory limit does not bind, else within a stated gap."""

    kind: ClassVar[str] = "dynamic_programming"

    def search(self, problem: SearchProblem) -> SearchOutcome:
        """The cheapest strategies; PlanError with the least memory of a stage where none fit, or with the
        operator where strategies of too many depend on each other, or none goes with its neighbours'.
        """
        costs = problem.costs
        graph = costs.graph
        cache, solver = TableCache(), WeightedSolver({})
        decided: dict[int, int] = {}
        bound = 0.0
        binding: list[int] = []
        rules: Counter[str] = Counter()
        for stage in graph.stages:
            stage_problem = StageProblem.of(costs, stage, decided, cache)
            for _, table in stage_problem.tables:
                if id(table) not in solver.objectives:
                    solver.objectives[id(table)] = table.objective(costs.model.weights)
            try:
                answer = best_within(
                    stage_problem,
                    problem.capacity,
                    solver,
                    problem.epsilon,
                    short_lists=problem.short_lists,
                )
            except TableTooLargeError as error:
                raise _too_large(graph.vertices[error.vertex].name, error.entries) from None
            if isinstance(answer, NothingFits):
                raise _nothing_fits(answer.least_memory, problem, stage, len(graph.stages))
            if math.isinf(answer.cost):
                raise _impossible(problem, stage_problem)
            assert solver.last is not None, "it has just solved the stage"
            rules.update(solver.last.rules)
            decided |= answer.chosen
            bound += answer.bound
            if answer.binds:
                binding.append(stage)
        chosen = tuple(costs.choices(vertex)[decided[vertex]] for vertex in range(len(graph.vertices)))
        notes = []
        if binding:
            where = f" of stage {', '.join(map(str, binding))}" if len(graph.stages) > 1 else ""
            limit = units.size(problem.capacity)
            notes.append(f"the memory limit of {limit}{where} binds: cheaper strategies need more")
        done = tuple((rule, count) for rule, count in sorted(rules.items()) if count)
        return SearchOutcome(chosen, bound, tuple(notes), costs.num_candidates, done)


def _too_large(name: str, entries: int) -> PlanError:
    return PlanError(
        f"{name} depends on so many operators at once that dynamic programming would need a table of "
        f"{entries:,} costs",
        path="parallel.search_mode",
        hint="write search_mode: recursive_programming, or name several axes of the mesh: fewer candidates",
    )


def _nothing_fits(least: float, problem: SearchProblem, stage: int, num_stages: int) -> PlanError:
    where = f" of stage {stage}" if num_stages > 1 else ""
    return PlanError(
        f"no strategies{where} fit into {units.size(problem.capacity)}: those that need least memory need "
        f"{units.size(least)}",
        path=f"{PATH}.device_memory_capacity",
        hint=f"allow more ({problem.device_memory}), or use more devices, stages or smaller micro-batches",
    )


def _impossible(problem: SearchProblem, stage_problem: StageProblem) -> PlanError:
    """Names an edge over which no pair of strategies goes, or else says what is known."""
    names = problem.costs.graph.vertices
    for variables, table in stage_problem.tables:
        if _all_impossible(table, problem):
            between = " and ".join(names[vertex].name for vertex in variables)
            return PlanError(
                f"no strategies of {between} go together: what they share cannot be redistributed",
                path="parallel.strategies",
                hint="leave it to the search what of them is split, or fix both",
            )
    return PlanError("no strategies of all operators go together", path="parallel.strategies")


def _all_impossible(table: CostTable, problem: SearchProblem) -> bool:
    return bool((table.objective(problem.costs.model.weights) == math.inf).all())
