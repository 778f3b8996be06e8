"""Scenario -> Run: the one composition of plan, Program, engine and documents."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from simcluster.analysis import LazyTrace, inference_figures, prefill_flops
from simcluster.engine import Progress
from simcluster.errors import SimclusterError
from simcluster.program import pipeline_pairs
from simcluster.scenario import Scenario
from simcluster.simulation.checkpoints import CheckpointCosts
from simcluster.simulation.compose import (
    BuiltScenario,
    build_scenario,
    run_alone,
    simulate_tenants,
    summarise_tenants,
)
from simcluster.simulation.views import documents_of
from simcluster.trace import WALL_TIME, Run, Table


def simulate(scenario: Scenario, *, unfold: bool = False, progress: Progress | None = None) -> Run:
    """Runs a scenario in time.

    With ``unfold`` every rank is simulated, not one of each class. ``progress`` may be watched from another
    thread. Raises PlanError for an impossible plan and SimulationError for a deadlock; a plan that does not
    fit into memory is a result, not an error.
    """
    began = time.perf_counter()
    result = run_built(build_scenario(scenario, unfold=unfold), unfold=unfold, progress=progress)
    result.documents["summary"][WALL_TIME] = time.perf_counter() - began
    return result


def run_built(built: BuiltScenario, *, unfold: bool = False, progress: Progress | None = None) -> Run:
    """The run of a built scenario; with ``unfold`` every rank of tenants is a class of its own."""
    try:
        tenants = simulate_tenants(built, unfold=unfold, progress=progress) if built.tenants else []
        timing = tenants[0].timing if tenants else run_alone(built, progress)
    except SimclusterError as error:
        raise built.scenario.located(error) from None
    built = tenants[0].built if tenants else built
    trace = LazyTrace(built.placed, timing)
    made = documents_of(built, timing, trace.account)
    made["summary"] |= summarise_tenants(tenants)
    made["summary"] |= _inference(built, trace)
    try:
        checkpoints = CheckpointCosts.of(built, made["summary"]["step_time_s"])
        if checkpoints is not None:
            made.setdefault("job", {})["checkpoints"] = checkpoints.document()
    except SimclusterError as error:
        raise built.scenario.located(error) from None
    return Run(trace.recording, trace.memory, trace.waits, _ranks(built), made)


def _inference(built: BuiltScenario, trace: LazyTrace) -> dict[str, Any]:
    """What the summary of an inference says besides; nothing of a training."""
    plan = built.plan
    if plan.pipeline.generation is None:
        return {}
    return inference_figures(
        built.placed,
        trace,
        plan.pipeline.generation,
        global_batch=built.scenario.spec.task.global_batch,
        num_micro_batches=plan.num_micro_batches,
        chunks={str(action): action.chunk for actions in plan.timetable for action in actions},
        prefill=prefill_flops(plan.logical) * plan.num_micro_batches,
        matmul=plan.numerics.matmul,
    )


def _ranks(built: BuiltScenario) -> Table:
    """The class of every rank, and the next rank along the pipeline (-1: none)."""
    program = built.program
    following = np.full(program.mesh.num_ranks, -1, dtype=np.int32)
    ranks, peers = pipeline_pairs(program.mesh, program.stage_axis, ring=program.ring).T
    following[ranks] = peers
    return Table({"class": built.classes.of_rank.astype(np.int32), "next": following})
