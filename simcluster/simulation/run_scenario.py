"""Scenario -> Run: the one composition of plan, Program, engine and documents."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from simcluster._version import __version__
from simcluster.analysis import inference_figures, time_use_document
from simcluster.critical_path import may_have_critical_path
from simcluster.engine import Progress, Timing
from simcluster.errors import SimclusterError
from simcluster.garbage import no_collection
from simcluster.model import prefill_flops
from simcluster.program import pipeline_pairs
from simcluster.scenario import Scenario
from simcluster.simulation.compose import (
    BuiltScenario,
    build_scenario,
    run_alone,
    simulate_tenants,
    summarise_tenants,
)
from simcluster.simulation.recording import LazyTrace
from simcluster.simulation.traffic import may_have_traffic
from simcluster.simulation.unequal_devices import lost_to_unequal_devices
from simcluster.simulation.views import documents_of, layouts_document
from simcluster.trace import WALL_TIME, Documents, Run, RunDocument, Table


def simulate(
    scenario: Scenario,
    *,
    unfold: bool = False,
    progress: Progress | None = None,
    replications: int = 1,
    jobs: int = 1,
) -> Run:
    """Runs a scenario in time, and its job over days, if it has one.

    With ``unfold`` every rank is simulated, not one of each class. ``progress`` may be watched from another
    thread. A job is run ``replications`` times with other draws, by ``jobs`` processes. Raises PlanError for
    an impossible plan and SimulationError for a deadlock; a plan that does not fit into memory is a result,
    not an error.
    """
    began = time.perf_counter()
    with no_collection():
        built = build_scenario(scenario, unfold=unfold)
        result = run_built(built, unfold=unfold, progress=progress, replications=replications, jobs=jobs)
    result.documents["summary"][WALL_TIME] = time.perf_counter() - began
    return result


def run_built(
    built: BuiltScenario,
    *,
    unfold: bool = False,
    progress: Progress | None = None,
    replications: int = 1,
    jobs: int = 1,
) -> Run:
    """The run of a built scenario; with ``unfold`` every rank of tenants is a class of its own.

    ``replications`` and ``jobs`` as in ``simulate``.
    """
    try:
        tenants = simulate_tenants(built, unfold=unfold, progress=progress) if built.tenants else []
        timing = tenants[0].timing if tenants else run_alone(built, progress)
    except SimclusterError as error:
        raise built.scenario.located(error) from None
    built = tenants[0].built if tenants else built
    trace = LazyTrace(built.placed, timing)
    made, later = documents_of(built, timing, trace.account)
    made["summary"] |= summarise_tenants(tenants)
    made["summary"] |= _inference(built, trace)
    made["summary"] |= lost_to_unequal_devices(built, made["summary"]["step_time_s"])
    if built.scenario.spec.job is not None:
        from simcluster.job import JOB_METRICS

        if progress is not None:
            progress.doing = "running the job over days"
        made["job"] = _job(built, made["summary"], replications, jobs)
        if progress is not None:
            progress.doing = ""
        made["summary"] |= {name: made["job"][name] for name in JOB_METRICS}
    steps = built.scenario.spec.run.steps
    later |= {
        "layouts": partial(layouts_document, built),
        "provenance": partial(_provenance, built),
        "time_use": partial(time_use_document, built.placed, timing, steps),
    }
    if may_have_critical_path(timing):
        later["critical_path"] = partial(_critical_path, built, timing)
    if may_have_traffic(built):
        later["traffic"] = partial(_traffic, built, made["summary"]["step_time_s"])
    return Run(trace.recording, trace.memory, trace.waits, _ranks(built), Documents(made, later))


def _provenance(built: BuiltScenario) -> dict[str, Any]:
    """What was run: the version, and a digest of the Program."""
    return {"simcluster": __version__, "program": built.program.digest()}


def _critical_path(built: BuiltScenario, timing: Timing) -> dict[str, Any]:
    """What decides when the run ends."""
    from simcluster.critical_path import critical_path_document

    return critical_path_document(built.placed, timing, built.scenario.spec.run.steps)


def _traffic(built: BuiltScenario, step: float) -> dict[str, Any]:
    """What the step puts on the network."""
    from simcluster.simulation.traffic import traffic_document

    return traffic_document(built, step)


def _job(built: BuiltScenario, summary: RunDocument, replications: int, jobs: int) -> dict[str, Any]:
    """The start and the checkpoints of the job, where the scenario says how, and its run over days."""
    from simcluster.simulation.checkpoints import CheckpointCosts
    from simcluster.simulation.jobs import (
        Checkpointing,
        JobPartCosts,
        rejoin_phases,
        restart_phases,
        simulate_job,
        start_timeline,
        start_up_document,
    )

    step_s, busy_s = summary["step_time_s"], summary["compute_s"]
    servers = built.plan.servers
    if servers is not None and not servers.is_synchronous:
        # Workers that do not wait for each other go at paces of their own.
        step_s = built.scenario.spec.task.global_batch / summary["parameter_server"]["samples_per_s"]
    parts: dict[str, Any] = {}
    try:
        if (timeline := start_timeline(built)) is not None:
            timeline.checked()
            parts["start_up"] = start_up_document(built)
        if (checkpoints := CheckpointCosts.of(built, step_s)) is not None:
            parts["checkpoints"] = checkpoints.document()
        costs = JobPartCosts(
            timeline.start_up if timeline else None,
            Checkpointing(
                checkpoints.spec.every,
                checkpoints.save,
                checkpoints.reload,
                checkpoints.load if checkpoints.spec.load else None,
            )
            if checkpoints
            else None,
            restart_phases(built),
            rejoin_phases(built),
        )
        return parts | simulate_job(built, step_s, busy_s, costs, replications=replications, jobs=jobs)
    except SimclusterError as error:
        raise built.scenario.located(error) from None


def _inference(built: BuiltScenario, trace: LazyTrace) -> dict[str, Any]:
    """What the summary of an inference says besides; nothing of a training."""
    plan = built.plan
    if plan.pipeline.generation is None:
        return {}
    return inference_figures(
        built.placed,
        trace.recording,
        None if trace.timing.many else trace.waits,
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
