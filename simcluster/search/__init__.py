"""Choosing plans: the best one of a space, proven by bounds, and the first that fits, by a plain rule.

The package can be called: ``simcluster.search(...)`` is ``simcluster.find_plan(...)``, for those who guess
the name of the command.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.search.first_fit import find_first_fit
    from simcluster.search.found_plan import FoundPlan
    from simcluster.search.from_python import find_plan
    from simcluster.search.improved_fit import improve_fit, plan_data
    from simcluster.search.planner import (
        Objective,
        PlanFigures,
        PlanSearch,
        SearchResult,
        SimulatedPlan,
        search_journal,
    )
    from simcluster.search.report import search_document, search_text, verdict, why_it_lost
    from simcluster.search.space import PlanChoice, PlanSpace, search_keys
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "first_fit": "find_first_fit",
            "found_plan": "FoundPlan",
            "from_python": "find_plan",
            "improved_fit": "improve_fit plan_data",
            "planner": "Objective PlanFigures PlanSearch SearchResult SimulatedPlan search_journal",
            "report": "search_document search_text verdict why_it_lost",
            "space": "PlanChoice PlanSpace search_keys",
        },
    )

__all__ = [
    "FoundPlan",
    "Objective",
    "PlanChoice",
    "PlanFigures",
    "PlanSearch",
    "PlanSpace",
    "SearchResult",
    "SimulatedPlan",
    "find_first_fit",
    "find_plan",
    "improve_fit",
    "plan_data",
    "search_document",
    "search_journal",
    "search_keys",
    "search_text",
    "verdict",
    "why_it_lost",
]


class _SearchPackage(ModuleType):
    """What this package is: a module that does, when it is called, what the command of its name does."""

    def __call__(self, *arguments: Any, **named: Any) -> "FoundPlan":
        from simcluster.search.from_python import find_plan

        return find_plan(*arguments, **named)


sys.modules[__name__].__class__ = _SearchPackage
