"""Mode ``manual``: what somebody wrote for every rank, as a Plan; MindSpore's hybrid parallel."""

from simcluster.plan.manual.manual_planner import ManualPlanner

__all__ = ["ManualPlanner"]
