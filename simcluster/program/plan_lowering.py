"""The Program of a plan: its graph lowered for its timetables, and its tokens routed."""

from __future__ import annotations

from simcluster.plan import Plan
from simcluster.program.assembly import build
from simcluster.program.isa import Program
from simcluster.program.routing import apply_routing
from simcluster.work import DType


def lowered(plan: Plan) -> Program:
    """The Program of a plan."""
    program = build(
        plan.graph,
        plan.timetables,
        plan.mesh,
        plan.stage_axis,
        chain=None if plan.assigned else plan.chain,
        variant_axis=plan.batches.axis,
        variants=plan.batches.variants,
        overlapped=plan.overlapped,
        prefetch=plan.prefetch,
        conduct=plan.conduct,
        tf32=plan.matmul is DType.TF32,
        graphs=plan.graphs,
        inputs=plan.inputs,
        assigned=plan.assigned,
    )
    return apply_routing(program, plan.routing, [each.name for each in plan.graph.instances])
