"""Many runs of one job with other draws: means, and between which bounds they lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.job.figures.job_figures import NANOSECOND, goodput_of, interruptions_of, training_ratio_of
from simcluster.job.timeline import JobRecord

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class ReplicationFigures:
    """The figures of one run."""

    wall_s: float
    goodput: float
    effective_training_time_ratio: float
    interruptions: float
    time_s: dict[str, float]
    """By phase."""


def replication_figures(record: JobRecord) -> ReplicationFigures:
    """Of a record what replications are compared by."""
    phases = sorted({phase for _, phase in record.ledger.spent})
    return ReplicationFigures(
        record.end_ns * NANOSECOND,
        goodput_of(record),
        training_ratio_of(record),
        float(interruptions_of(record)),
        {phase: record.ledger.of_phase(phase) * NANOSECOND for phase in phases},
    )


def replication_document(runs: Sequence[ReplicationFigures]) -> dict[str, Any]:
    """Mean, bounds of the mean (95%, Student's t), least and most of every figure."""
    phases = sorted({phase for run in runs for phase in run.time_s})
    names = ("wall_s", "goodput", "effective_training_time_ratio", "interruptions")
    return {
        "count": len(runs),
        "confidence": CONFIDENCE,
        **{name: _statistics([getattr(run, name) for run in runs]) for name in names},
        "time_s": {phase: _statistics([run.time_s.get(phase, 0.0) for run in runs]) for phase in phases},
    }


def _statistics(values: Sequence[float]) -> dict[str, float | None]:
    mean, half = fmean(values), None
    if len(values) > 1:
        half = _quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return {
        "mean": mean,
        "low": None if half is None else mean - half,
        "high": None if half is None else mean + half,
        "min": min(values),
        "max": max(values),
    }


def _quantile(freedom: int) -> float:
    """The two-sided quantile of Student's t: Hill's expansion, and its exact values for the fewest runs."""
    exact = {1: 12.7062, 2: 4.30265, 3: 3.18245, 4: 2.77645}
    if freedom in exact:
        return exact[freedom]
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    terms = (
        (z**3 + z) / (4 * freedom),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3),
    )
    return z + math.fsum(terms)
