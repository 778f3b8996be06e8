"""The search for the best plan of a space."""

from simcluster.search.planner.kept_plans import search_journal
from simcluster.search.planner.objective import Objective
from simcluster.search.planner.plan_figures import PlanFigures, simulate_plan
from simcluster.search.planner.plan_search import PlanSearch, SearchResult, SimulatedPlan
from simcluster.search.planner.shared_scenario import SharedScenario

__all__ = [
    "Objective",
    "PlanFigures",
    "PlanSearch",
    "SearchResult",
    "SharedScenario",
    "SimulatedPlan",
    "search_journal",
    "simulate_plan",
]
