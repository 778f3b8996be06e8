"""The plans of a space with their bounds, worked out on the workers of an executor."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from simcluster.search.bounds import PlanBound, PlanBounds, Refusal
from simcluster.search.planner.shared_scenario import SharedScenario
from simcluster.search.space import PlanChoice, PlanSpace
from simcluster.workers import Failure, in_order, run_all


@dataclass(frozen=True, slots=True)
class BoundedPlan:
    """A plan and its bound."""

    choice: PlanChoice
    bound: PlanBound


@dataclass(frozen=True, slots=True)
class BoundedSpace:
    """All plans of a space: those with a bound, and those that are impossible, with the reason."""

    plans: tuple[BoundedPlan, ...]
    refused: tuple[tuple[PlanChoice, str], ...]
    num_costed: int
    """Small plans that costs of layers were read from."""

    @property
    def num_plans(self) -> int:
        """All plans of the space, with those whose layers are balanced."""
        return len(self.plans) + len(self.refused)


@dataclass(frozen=True, slots=True)
class _Group:
    """Plans with the same costs of layers; ``limit``: part of the memory, where layers are balanced, too."""

    scenario: SharedScenario
    choices: tuple[PlanChoice, ...]
    limit: float | None


def bound_space(space: PlanSpace, shared: SharedScenario, limit: float, executor: Executor) -> BoundedSpace:
    """The bounds of all plans of a space, whose scenario is ``shared``; ``limit`` are bytes of a device.

    Raises the error of a worker that fails.
    """
    bounds = PlanBounds(space.scenario)
    groups: dict[object, list[PlanChoice]] = {}
    for choice in space.plans:
        groups.setdefault(bounds.cost_key(choice), []).append(choice)
    most = max(host.device.memory for host in space.scenario.cluster.kinds)
    balance = limit / most if "stages" in space.keys else None
    tasks = [_Group(shared, tuple(choices), balance) for choices in groups.values()]
    plans: list[BoundedPlan] = []
    refused: list[tuple[PlanChoice, str]] = []
    for outcome in in_order(run_all(_bound_group, tasks, executor)):
        if isinstance(outcome, Failure):
            raise outcome.error
        for choice, bound in outcome:
            if isinstance(bound, Refusal):
                refused.append((choice, bound.message))
            else:
                plans.append(BoundedPlan(choice, bound))
    return BoundedSpace(tuple(plans), tuple(refused), len(tasks))


def _bound_group(group: _Group) -> Sequence[tuple[PlanChoice, PlanBound | Refusal]]:
    bounds = PlanBounds(group.scenario.here)
    known: dict[PlanChoice, PlanBound | Refusal] = {}
    for choice in group.choices:
        known[choice] = bounds.of(choice)
        other = None
        if group.limit is not None and isinstance(known[choice], PlanBound):
            other = bounds.balanced(choice, group.limit)
        if other is not None and other not in known:
            known[other] = bounds.of(other)
    return list(known.items())
