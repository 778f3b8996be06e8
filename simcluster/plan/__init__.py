"""Passes that turn a model into a sharded, scheduled plan."""

from simcluster.plan.modes import make_plan
from simcluster.plan.plan import Plan

__all__ = ["Plan", "make_plan"]
