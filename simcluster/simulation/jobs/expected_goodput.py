"""What laws of failures and Daly's formula say of a job, beside its simulated run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
    mtbf = 1 / setup.rate
    interval = rhythm.every * nominal.step_ns / NANOSECONDS
    save, background = _save_s(rhythm, interval)
    best = max(daly_interval(save, mtbf) if save else 0.0, min(background, mtbf))
    lost = _lost_s(setup, min(interval, background))
    return {
        "expected": {
            "mtbf_s": mtbf,
            "restart_s": _mean_s(setup, setup.causes, _restart_after),
            "goodput_of_restarts": 1 / expected_wall_time(interval, save, lost, mtbf, background),
            "best_interval_s": best or None,
            "interval_s": interval,
        }
    }


def _lost_s(setup: JobSetup, unwritten: float) -> float:
    """The time of a restart in Daly's formula that stands for those of all causes.

    What is trained while a corruption is not noticed is lost with it; other failures meanwhile change nothing
    in that, and the checkpoint that is being written, which others lose (``unwritten`` s), is of use.
    """
    corrupt = [cause for cause in setup.causes if cause.effect is FailureEffect.CORRUPT]
    if not corrupt:
        return _mean_s(setup, setup.causes, _restart_after)
    others = [cause for cause in setup.causes if cause.effect is not FailureEffect.CORRUPT]
    share = math.fsum(map(setup.rate_of, corrupt)) / setup.rate
    noticed = _mean_s(setup, corrupt, lambda cause, setup: _restart_after(cause, setup) + _unnoticed_s(cause))
    stopped = math.expm1(min((_mean_s(setup, others, _restart_after) + unwritten) * setup.rate, MOST))
    return math.log1p(share * noticed * setup.rate + (1 - share) * stopped) / setup.rate - unwritten


MOST = 600.0
"""Of an exponent that floats hold."""


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


def _mean_s(
    setup: JobSetup, causes: Sequence[FailureCause], seconds: Callable[[FailureCause, JobSetup], float]
) -> float:
    """The mean over the failures of some causes that stop the job; 0 if there are none."""
    rate = math.fsum(map(setup.rate_of, causes))
    return math.fsum(setup.rate_of(cause) * seconds(cause, setup) for cause in causes) / rate if rate else 0.0


def _unnoticed_s(cause: FailureCause) -> float:
    return 0.0 if cause.duration is None else cause.duration.mean


def _restart_after(cause: FailureCause, setup: JobSetup) -> float:
    """Seconds from a failure, or from when it is noticed, until training goes on after a restart."""
    costs = setup.job.costs
    match cause.effect:
        case FailureEffect.HANG:
            detect = costs.collective_timeout_s
        case FailureEffect.TRANSIENT:
            detect = costs.retry_s
        case FailureEffect.CORRUPT:
            detect = 0.0
        case _:
            detect = min(costs.heartbeat_s, costs.collective_timeout_s)
    phases = costs.restart(others_wait=cause.effect is FailureEffect.STOP and cause.component != "job")
    return detect + costs.replace_s * cause.replaces + math.fsum(phase.seconds for phase in phases)
