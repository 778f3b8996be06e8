"""Spaces of plans: what a search may change of a scenario, one file for each key."""

from simcluster.search.space.plan_choice import DATA, PIPELINE, PlanChoice
from simcluster.search.space.search_key import SpaceSetting
from simcluster.search.space.space import PlanSpace, search_keys

__all__ = ["DATA", "PIPELINE", "PlanChoice", "PlanSpace", "SpaceSetting", "search_keys"]
