"""Spaces of plans: what a search may change of a scenario, one file for each key."""

from simcluster.search.space.plan_choice import DATA, PIPELINE, PlanChoice

__all__ = ["DATA", "PIPELINE", "PlanChoice"]
