"""The plans of a space with their bounds, worked out on the workers of an executor."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Executor

from simcluster.deferred_dataclass import dataclass
from simcluster.garbage import no_collection
from simcluster.search.bounds import PlanBound, PlanBounds, Refusal
from simcluster.search.planner.shared_scenario import SharedScenario
from simcluster.search.space import PlanChoice, PlanSpace
from simcluster.workers import Failure, in_order, run_all

_LATEST: dict[tuple[str, float], PlanBounds] = {}
"""The bounds of the latest call by the digest of its scenario."""


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
    cpu_s: float
    """Processor time of all bounds, in seconds, with the planning of those small plans."""

    @property
    def num_plans(self) -> int:
        """All plans of the space, with those whose layers are balanced."""
        return len(self.plans) + len(self.refused)


@dataclass(frozen=True, slots=True)
class _Group:
    """Plans whose layers are split alike; ``limit``: part of the memory, where layers are balanced, too.

    The time of those that need more than ``allowed`` bytes is not looked at. ``shares``: also with shares of
    the batch by the speed of devices.
    """

    scenario: SharedScenario
    choices: tuple[PlanChoice, ...]
    limit: float | None
    allowed: float
    shares: bool


def bound_space(
    space: PlanSpace, shared: SharedScenario, limit: float, executor: Executor, allowed: float | None = None
) -> BoundedSpace:
    """The bounds of all plans of a space, whose scenario is ``shared``; ``limit`` are bytes of a device.

    Plans that need more than ``allowed`` bytes, by default the limit, get no bound of their time and a looser
    one of their memory.

    Raises the error of a worker that fails.
    """
    allowed = limit if allowed is None else allowed
    bounds = PlanBounds(space.scenario)
    groups: dict[object, list[PlanChoice]] = {}
    for choice in space.plans:
        groups.setdefault(bounds.group_key(choice), []).append(choice)
    most = max(host.device.memory for host in space.scenario.cluster.kinds)
    balance = limit / most if "stages" in space.keys else None
    tasks = [
        _Group(shared, tuple(choices), balance, allowed, "batch_shares" in space.keys)
        for choices in groups.values()
    ]
    plans: list[BoundedPlan] = []
    refused: list[tuple[PlanChoice, str]] = []
    num_costed, cpu_s = 0, 0.0
    for outcome in in_order(run_all(_bound_group, tasks, executor)):
        if isinstance(outcome, Failure):
            raise outcome.error
        bounded, num_small_plans, spent_s = outcome
        num_costed += num_small_plans
        cpu_s += spent_s
        for choice, bound in bounded:
            if isinstance(bound, Refusal):
                refused.append((choice, bound.message))
            else:
                plans.append(BoundedPlan(choice, bound))
    return BoundedSpace(tuple(plans), tuple(refused), num_costed, cpu_s)


def _bound_group(group: _Group) -> tuple[Sequence[tuple[PlanChoice, PlanBound | Refusal]], int, float]:
    """The bounds of a group, how many small plans they were read from, and the seconds of this thread."""
    began = time.thread_time()
    # Thousands of instructions of small plans hold no cycles worth looking for.
    with no_collection():
        bounded, num_small_plans = _bounds(group)
    return bounded, num_small_plans, time.thread_time() - began


def _bounds(group: _Group) -> tuple[Sequence[tuple[PlanChoice, PlanBound | Refusal]], int]:
    bounds = _bounds_of(group.scenario, group.allowed).of_group(group.choices)
    known: dict[PlanChoice, PlanBound | Refusal] = {}
    for choice in group.choices:
        known[choice] = bounds.of(choice)
        if isinstance(known[choice], Refusal):
            continue
        others = [bounds.balanced(choice, group.limit)] if group.limit is not None else []
        if group.shares:
            others += [bounds.shared(choice)]
        for other in others:
            if other is not None and other not in known:
                known[other] = bounds.of(other)
    return list(known.items()), bounds.small_plans.num_planned


def _bounds_of(shared: SharedScenario, allowed: float) -> PlanBounds:
    """What this worker knows of the scenario of its latest call."""
    key = shared.digest, allowed
    if key not in _LATEST:
        _LATEST.clear()
        _LATEST[key] = PlanBounds(shared.here, allowed=allowed)
    return _LATEST[key]
