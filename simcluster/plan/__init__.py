"""Passes that turn a model into a sharded, scheduled plan."""

from simcluster.plan.plan import Plan, make_plan

__all__ = ["Plan", "make_plan"]
