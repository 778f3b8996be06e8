"""What a search found, as JSON-able data."""

from __future__ import annotations

from typing import Any

from simcluster.search.planner import SearchResult, SimulatedPlan
from simcluster.search.report.reasons import why_it_lost


def search_document(result: SearchResult) -> dict[str, Any]:
    """The space, the counts of its plans, and every plan that was simulated, the best first; SI units."""
    best = result.best
    return {
        "name": result.space.scenario.name,
        "over": {name: list(values) for name, values in result.space.keys.items()},
        "idle_values": {name: result.space.idle_values(name) for name in result.space.keys},
        "objective": str(result.objective),
        "limit_memory": result.limit,
        "num_plans": result.bounded.num_plans,
        "num_impossible": len(result.bounded.refused),
        "num_too_large": result.num_too_large,
        "num_simulated": len(result.simulated),
        "num_costed": result.bounded.num_costed,
        "proven": result.is_proven,
        "gap": result.gap,
        "own": None if result.own is None else result.own.document(),
        "best": None if best is None else _plan(result, best),
        "front": [_plan(result, plan) for plan in result.front],
        "plans": [_plan(result, plan) for plan in (*result.fitting, *result.failing)],
    }


def _plan(result: SearchResult, plan: SimulatedPlan) -> dict[str, Any]:
    best = result.best
    devices = result.space.setting.devices_per_host
    reason = "" if best is None or plan is best else why_it_lost(plan, best, result.limit, devices)
    cost = result.cost_of(plan.figures)
    return {
        "plan": plan.choice.text,
        "set": [f"{key}={text}" for key, text in result.space.changes_of(plan.choice)],
        "least_step_time_s": plan.least_s,
        "least_memory": plan.least_memory,
        "fits": plan.figures.fits(result.limit),
        "reason": reason,
        **({} if cost is None else {"cost": cost, "currency": result.currency}),
        **plan.figures.document(),
    }
