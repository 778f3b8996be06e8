"""Lower bounds on the time and the memory of plans, without planning them."""

from simcluster.search.bounds.layer_costs import LayerCosts
from simcluster.search.bounds.plan_bound import PlanBound
from simcluster.search.bounds.plan_bounds import PlanBounds
from simcluster.search.bounds.small_plans import Refusal

__all__ = ["LayerCosts", "PlanBound", "PlanBounds", "Refusal"]
