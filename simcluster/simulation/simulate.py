"""Scenario -> Run: the one composition of plan, Program, engine and documents."""

from __future__ import annotations

import time

from simcluster.engine import Progress, Timing, instruction_times, memory, run, spans, waits
from simcluster.errors import SimclusterError
from simcluster.program import Action
from simcluster.scenario import Scenario
from simcluster.simulation.build import Built, host_calls, prepare
from simcluster.simulation.documents import documents
from simcluster.trace import Run, Table


def simulate(scenario: Scenario, *, unfold: bool = False, progress: Progress | None = None) -> Run:
    """Runs a scenario in time.

    With ``unfold`` every rank is simulated, not one of each class. ``progress`` may be watched from another
    thread. Raises PlanError for an impossible plan and SimulationError for a deadlock; a plan that does not
    fit into memory is a result, not an error.
    """
    began = time.perf_counter()
    built = prepare(scenario, unfold=unfold)
    try:
        timing = timed(built, progress)
    except SimclusterError as error:
        raise scenario.located(error) from None
    found = [instruction_times(each) for each in timing.classes]
    table = spans(built.program, found, timing.classes)
    stages = [built.program.stage_of(rank) for rank in built.classes.representatives]
    devices = [built.cluster.device(rank) for rank in built.classes.representatives]
    account = memory(built.program, stages, devices, timing.classes, found)
    gaps = waits(timing.classes, timing.end, built.plan.stage_axis, built.plan.num_stages)
    made = documents(built, timing, account, gaps)
    made["summary"]["wall_s"] = time.perf_counter() - began
    return Run(table, account, _transfers(table), gaps, made)


def timed(built: Built, progress: Progress | None = None) -> Timing:
    """The engine's run of what was built."""
    return run(
        built.program,
        built.cluster,
        built.classes,
        steps=built.scenario.spec.run.steps,
        dispatch=built.plan.dispatch,
        algorithms=built.plan.algorithms,
        host=host_calls(built.plan),
        progress=progress,
    )


def _transfers(table: Table) -> Table:
    """The spans that move data between devices."""
    kernels = table.index("kind", str(Action.COMPUTE))
    return table.where(table["kind"] != kernels)
