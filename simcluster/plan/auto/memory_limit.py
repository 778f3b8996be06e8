"""The best strategies of a stage that fit into its memory: by prices of a byte, and by lists of costs.

A price per byte turns the limit into a part of the objective. Every price gives a bound that no choice that
fits can beat, and the best price the best bound; the cheapest choice met on the way that fits is an answer.
Where it is further than epsilon from the bound, lists of costs (objective and memory) go through the same
eliminations, thinned so that the answer is within epsilon of the best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from simcluster.deferred_dataclass import dataclass
from simcluster.plan.auto.cost_table import CostTable
from simcluster.plan.auto.elimination import Variables
from simcluster.plan.auto.list_elimination import ListElimination, ListsTooLongError
from simcluster.plan.auto.stage_problem import StageProblem, WeightedSolver

_MOST_PRICES = 24
_TIGHT = 1e-9


@dataclass(frozen=True, slots=True)
class LimitedChoice:
    """A choice of strategies that fits, and a bound on the cost of all that do."""

    chosen: Mapping[int, int]
    """Operator -> index of its strategy."""
    cost: float
    """Its objective."""
    bound: float
    """What no choice that fits is cheaper than."""
    binds: bool = False
    """Whether cheaper choices need more."""


@dataclass(frozen=True, slots=True)
class NothingFits:
    """No choice fits."""

    least_memory: float
    """Bytes that the one needs which needs least."""


def best_within(
    problem: StageProblem,
    capacity: float,
    solver: WeightedSolver,
    epsilon: float,
    *,
    short_lists: bool = False,
) -> LimitedChoice | NothingFits:
    """The cheapest choice that needs at most ``capacity`` bytes.

    Exact where the limit does not bind; else within ``epsilon`` of the best, or, with ``short_lists`` and
    where lists would grow too long, as close as the bound says.
    """
    cost, chosen = solver.solve(problem, 1.0, 0.0)
    memory = problem.memory_of(chosen)
    if memory <= capacity:
        return LimitedChoice(chosen, cost, cost)
    _, smallest = solver.solve(problem, 0.0, 1.0)
    least = problem.memory_of(smallest)
    if least > capacity:
        return NothingFits(least)
    best, bound = _by_prices(problem, capacity, solver, (cost, memory), chosen, smallest)
    if best.cost - bound > epsilon * bound:
        try:
            shorter = ListElimination.of(problem, solver, epsilon, short=short_lists).best(capacity)
        except ListsTooLongError:
            shorter = None
        if shorter is not None:
            listed = solver.cost_of(problem, shorter)
            if not short_lists:
                bound = max(bound, listed / (1 + epsilon))
            if listed < best.cost:
                best = LimitedChoice(shorter, listed, bound)
    # Sums in another order may differ in their last digits.
    return LimitedChoice(best.chosen, best.cost, min(bound, best.cost), binds=True)


def _by_prices(
    problem: StageProblem,
    capacity: float,
    solver: WeightedSolver,
    too_large: tuple[float, float],
    largest: Mapping[int, int],
    smallest: Mapping[int, int],
) -> tuple[LimitedChoice, float]:
    """The cheapest choice that fits among those of all prices that were tried, and the best bound.

    Each price is that at which the last choice that fits and the last one that does not cost the same. These
    two are mixed in the end.
    """
    bound = too_large[0]
    fits = solver.cost_of(problem, smallest), problem.memory_of(smallest)
    best = LimitedChoice(smallest, fits[0], bound)
    fitting, larger = smallest, largest
    for _ in range(_MOST_PRICES):
        if fits[0] <= too_large[0] or too_large[1] <= fits[1]:
            break
        price = (fits[0] - too_large[0]) / (too_large[1] - fits[1])
        least, chosen = solver.solve(problem, 1.0, price)
        bound = max(bound, least - price * capacity)
        cost, memory = solver.cost_of(problem, chosen), problem.memory_of(chosen)
        line = too_large[0] + price * too_large[1]
        if memory <= capacity and cost < best.cost:
            best = LimitedChoice(chosen, cost, bound)
        if least >= line * (1 - _TIGHT):
            break
        if memory <= capacity:
            fits, fitting = (cost, memory), chosen
        else:
            too_large, larger = (cost, memory), chosen
    for first, second in ((fitting, larger), (larger, fitting)):
        cost, mixed = _best_mixture(problem, capacity, solver, first, second)
        if cost < best.cost:
            best = LimitedChoice(mixed, cost, bound)
    return best, bound


def _best_mixture(
    problem: StageProblem,
    capacity: float,
    solver: WeightedSolver,
    first: Mapping[int, int],
    second: Mapping[int, int],
) -> tuple[float, dict[int, int]]:
    """The cheapest choice that fits and has one up to some operator and another from there on.

    What fits at the best price leaves some memory unused; so many equal layers have the dearer strategies.
    """
    around: dict[int, list[tuple[Variables, CostTable]]] = {vertex: [] for vertex in problem.sizes}
    for variables, table in problem.tables:
        for vertex in variables:
            around[vertex].append((variables, table))
    mixed = dict(second)
    cost, memory = solver.cost_of(problem, mixed), problem.memory_of(mixed)
    best = math.inf, dict(mixed)
    for vertex in sorted(problem.sizes):
        for sign in (-1, 1):
            for variables, table in around[vertex]:
                place = tuple(mixed[other] for other in variables)
                cost += sign * float(solver.objectives[id(table)][place])
                memory += sign * float(table.memory[place])
            if sign < 0:
                mixed[vertex] = first[vertex]
        if memory <= capacity and cost < best[0]:
            best = cost, dict(mixed)
    # Sums that were added to and taken from differ in their last digits.
    exact = solver.cost_of(problem, best[1])
    return (exact if problem.memory_of(best[1]) <= capacity else math.inf), best[1]
