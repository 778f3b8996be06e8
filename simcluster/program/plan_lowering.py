"""The Program of a plan: its graph lowered for its timetables, and its tokens routed."""

from __future__ import annotations

from simcluster.plan import Plan
from simcluster.program.assembly import build
from simcluster.program.isa import Program
from simcluster.program.routing import apply_routing


def lowered(plan: Plan) -> Program:
    """The Program of a plan."""
    return apply_routing(build(plan), plan.routing, [instance.name for instance in plan.graph.instances])
