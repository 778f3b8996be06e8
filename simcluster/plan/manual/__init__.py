"""Mode ``manual``: a Plan from the program that a user wrote for every rank; MindSpore's hybrid parallel."""

from simcluster.plan.manual.manual_planner import ManualPlanner

__all__ = ["ManualPlanner"]
