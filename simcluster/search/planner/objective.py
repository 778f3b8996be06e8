"""What a search makes least."""

from __future__ import annotations

from enum import StrEnum

from simcluster.search.bounds import PlanBound
from simcluster.search.planner.plan_figures import PlanFigures


class Objective(StrEnum):
    """What of a plan is to be least; the cost of a step goes by its time, as the cluster is given."""

    STEP_TIME = "step_time"
    COST = "cost"
    MEMORY = "memory"

    def of(self, figures: PlanFigures) -> float:
        """The value of a simulated plan: seconds, or bytes."""
        return figures.memory if self is Objective.MEMORY else figures.step_time_s

    def bound(self, bound: PlanBound) -> float:
        """The least value that a plan may have."""
        return bound.memory if self is Objective.MEMORY else bound.time_ns * 1e-9
