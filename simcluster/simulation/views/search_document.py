"""How the strategies of a plan were searched: the search's own cost beside the time that is simulated."""

from __future__ import annotations

from typing import Any

from simcluster.plan import Plan


def search_document_of(plan: Plan, simulated: float | None = None) -> dict[str, Any]:
    """The key ``search`` of a plan's document, or nothing where nothing was searched.

    ``simulated`` is the time of a step, seconds; None where nothing was simulated. Costs are in the cost
    model's unit: of one micro-batch, without overlap, so the two figures are not the same thing.
    """
    report = plan.search
    if report is None:
        return {}
    return {
        "search": {
            "search_mode": report.search_mode,
            "cost_model": report.cost_model,
            "unit": report.unit,
            "cost": report.cost,
            "compute": report.compute,
            "communication": report.communication,
            "memory_bytes": report.memory,
            "bound": report.bound,
            "gap": report.gap,
            "operators_searched": report.num_searched,
            "operators_fixed": report.num_fixed,
            "candidates": report.num_candidates,
            "eliminations": dict(report.eliminations),
            "simulated_step_s": simulated,
            "notes": list(report.notes),
        }
    }
