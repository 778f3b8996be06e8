"""What laws of failures and Daly's formula say of a job, beside its simulated run."""

from __future__ import annotations

import math
from typing import Any

from simcluster.job import (
    NANOSECONDS,
    FailureCause,
    FailureEffect,
    SaveRhythm,
    StepSummary,
    daly_interval,
    expected_wall_time,
)
from simcluster.simulation.jobs.job_setup import JobSetup


def expected_figures(setup: JobSetup, nominal: StepSummary) -> dict[str, Any]:
    """The document ``expected`` of a job that saves and fails by laws, in seconds; nothing for others."""
    rhythm = setup.job.rhythm
    if not setup.rate or rhythm.every is None:
        return {}
    mtbf, restart = 1 / setup.rate, _restart_s(setup)
    interval = rhythm.every * nominal.step_ns / NANOSECONDS
    save, background = _save_s(rhythm, interval)
    best = max(daly_interval(save, mtbf) if save else 0.0, min(background, mtbf))
    return {
        "expected": {
            "mtbf_s": mtbf,
            "restart_s": restart,
            "goodput_of_restarts": 1 / expected_wall_time(interval, save, restart, mtbf, background),
            "best_interval_s": best or None,
            "interval_s": interval,
        }
    }


def _save_s(rhythm: SaveRhythm, interval: float) -> tuple[float, float]:
    """What a save costs training, wherever it waits for no other, and how long it is written beside it.

    Steps that are slower meanwhile count as part of the save; where saves wait for each other anyway, slower
    steps lengthen nothing.
    """
    save = (rhythm.blocking_ns - rhythm.late_ns) / NANOSECONDS
    background = (rhythm.background_ns + rhythm.late_ns) / NANOSECONDS
    if background < interval * rhythm.slowdown:
        save += background * (1 - 1 / rhythm.slowdown)
    return save, background


def _restart_s(setup: JobSetup) -> float:
    """From a failure until training goes on after a restart, in the mean over failures that stop the job."""
    return (
        math.fsum(setup.rate_of(cause) * _restart_after(cause, setup) for cause in setup.causes) / setup.rate
    )


def _restart_after(cause: FailureCause, setup: JobSetup) -> float:
    costs = setup.job.costs
    match cause.effect:
        case FailureEffect.HANG:
            detect = costs.collective_timeout_s
        case FailureEffect.TRANSIENT:
            detect = costs.retry_s
        case _:
            detect = min(costs.heartbeat_s, costs.collective_timeout_s)
    phases = costs.restart(others_wait=cause.effect is FailureEffect.STOP and cause.component != "job")
    return detect + costs.replace_s * cause.replaces + math.fsum(phase.seconds for phase in phases)
