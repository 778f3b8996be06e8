"""The document ``job`` of a run: one run over days, and the figures of replications."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.job import (
    NANOSECONDS,
    NOMINAL_STATE,
    ClusterState,
    JobRecord,
    ReplicationFigures,
    StepSummary,
    figures_of_job,
    replication_document,
    replication_figures,
    run_job,
)
from simcluster.simulation.compose import BuiltScenario
from simcluster.simulation.jobs.expected_goodput import expected_figures
from simcluster.simulation.jobs.job_setup import JobPartCosts, JobSetup, setup_job
from simcluster.simulation.jobs.spending import spent_on_job
from simcluster.simulation.jobs.step_times import StepTimes
from simcluster.workers import Failure, in_order, local_executor, run_all


def simulate_job(
    built: BuiltScenario,
    step_s: float,
    busy_s: float,
    costs: JobPartCosts | None = None,
    *,
    replications: int = 1,
    jobs: int = 1,
) -> dict[str, Any]:
    """The document of a job; ``step_s`` is the step of the whole, healthy cluster, as it was timed, and
    ``busy_s`` how long kernels run in it, mean over ranks; ``costs`` are those of launch and
    checkpoints, where the scenario has them.

    The first replication is the one that is told in full; all have draws of their own. They run in ``jobs``
    processes, and the figures are the same for any number of these.
    """
    times = StepTimes(built)
    nominal = StepSummary(round(step_s * NANOSECONDS), built.scenario.spec.task.global_batch)
    times.times[times.signature(NOMINAL_STATE)] = nominal
    setup = setup_job(built, nominal, costs or JobPartCosts())
    record = _run(setup, 0, times)
    document = _document(setup, record, times, busy_s / step_s)
    if replications > 1:
        runs = [replication_figures(record), *_others(setup, times, range(1, replications), jobs)]
        document["replications"] = replication_document(runs)
    return document


def _document(setup: JobSetup, record: JobRecord, times: StepTimes, busy: float) -> dict[str, Any]:
    spec = times.built.scenario.spec.job
    assert spec is not None
    job = setup.job
    return {
        "steps": job.steps,
        "policy": job.policy.kind,
        "policy_is_exact": job.policy.is_exact,
        "failures": spec.failures.title or spec.failures.use or "",
        "spares": job.num_spares,
        "hosts": setup.fleet.num_hosts,
        "devices": setup.fleet.num_devices,
        "steps_between_checkpoints": job.rhythm.every,
        "timed_states": len(times.times),
        **figures_of_job(record),
        **expected_figures(setup, record.nominal),
        **spent_on_job(times.built, record, setup, busy),
    }


def _run(setup: JobSetup, replication: int, step: StepTimes | _KnownSteps) -> JobRecord:
    return run_job(setup.job, setup.incidents(replication), step, setup.generator(replication))


# -- replications -------------------------------------------------------------------------------------------


@dataclass
class _KnownSteps:
    """Steps that were timed; for any other state the nominal one stands in, and the state is noted."""

    known: Mapping[ClusterState, StepSummary]
    missing: set[ClusterState] = field(default_factory=set)

    def __call__(self, state: ClusterState) -> StepSummary:
        if state not in self.known:
            self.missing.add(state)
        return self.known.get(state, self.known[NOMINAL_STATE])


@dataclass(frozen=True)
class _Replication:
    """A call for a process: one run with the steps that are known so far."""

    setup: JobSetup
    number: int
    known: Mapping[ClusterState, StepSummary]


def replicate(call: _Replication) -> tuple[ReplicationFigures | None, tuple[ClusterState, ...]]:
    """The figures of one run, or None and the states of the cluster whose steps it lacks."""
    steps = _KnownSteps(call.known)
    record = _run(call.setup, call.number, steps)
    if steps.missing:
        return None, tuple(sorted(steps.missing, key=repr))
    return replication_figures(record), ()


def _others(setup: JobSetup, times: StepTimes, numbers: range, jobs: int) -> list[ReplicationFigures]:
    """The figures of replications, by number.

    Runs go on with a guess where they lack a step, so that they name nearly all that they lack at once; those
    are timed here, where the Program is, and the runs that lacked some are run again.
    """
    figures: dict[int, ReplicationFigures] = {}
    known = {NOMINAL_STATE: times(NOMINAL_STATE)}
    with local_executor(jobs, len(numbers)) as executor:
        while left := [number for number in numbers if number not in figures]:
            calls = [_Replication(setup, number, known) for number in left]
            lacking: dict[ClusterState, None] = {}
            for number, outcome in zip(left, in_order(run_all(replicate, calls, executor)), strict=True):
                if isinstance(outcome, Failure):
                    raise outcome.error
                run, missing = outcome
                if run is not None:
                    figures[number] = run
                lacking |= dict.fromkeys(missing)
            known = known | {state: times(state) for state in lacking}
    return [figures[number] for number in numbers]
