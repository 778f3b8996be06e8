"""Whether predictions put the plans of one model on one machine in the order in which they were measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from simcluster.accuracy.runs.predict import RunFigure, RunPrediction
from simcluster.deferred_dataclass import dataclass

LEAST_ROWS = 8
"""Fewer plans say little about their order."""

Choice = tuple[str, ...]
"""What those who choose among plans hold: publisher, model, sequence length, hardware, devices."""


@dataclass(frozen=True, slots=True)
class PlanRanking:
    """Spearman's rank correlation of predicted and measured times per sample, of so many rows."""

    rows: int
    correlation: float
    regret: float
    """How much longer than the fastest plan that took which is predicted to be it: 0.02 is 2 %."""


def rank_plans(
    predictions: Iterable[RunPrediction], least_rows: int = LEAST_ROWS
) -> dict[Choice, PlanRanking]:
    """The ranking of the plans of each model on each machine of which there are enough."""
    choices: dict[Choice, list[RunPrediction]] = {}
    for prediction in predictions:
        if not prediction.reason and prediction.figure is RunFigure.STEP:
            choices.setdefault(_choice(prediction), []).append(prediction)
    return {choice: _ranking(rows) for choice, rows in sorted(choices.items()) if len(rows) >= least_rows}


def rank_publishers(predictions: Iterable[RunPrediction], least_rows: int = LEAST_ROWS) -> dict[str, float]:
    """The rank correlation of predicted and measured step times of each publisher with enough rows."""
    groups: dict[str, list[RunPrediction]] = {}
    for prediction in predictions:
        if not prediction.reason and prediction.figure is RunFigure.STEP:
            groups.setdefault(prediction.row.group, []).append(prediction)
    return {
        group: rank_correlation(
            np.array([row.measured for row in rows]), np.array([row.predicted for row in rows])
        )
        for group, rows in sorted(groups.items())
        if len(rows) >= least_rows
    }


def _choice(prediction: RunPrediction) -> Choice:
    row = prediction.row
    words = (row.words[column] for column in ("model", "seq_len", "hardware", "num_devices"))
    return (row.group, *words)


def _ranking(rows: Sequence[RunPrediction]) -> PlanRanking:
    samples = np.array([row.row.count("global_batch") for row in rows])
    measured = np.array([row.measured for row in rows]) / samples
    predicted = np.array([row.predicted for row in rows]) / samples
    regret = measured[np.argmin(predicted)] / measured.min() - 1
    return PlanRanking(len(rows), rank_correlation(measured, predicted), float(regret))


def rank_correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Spearman's: the correlation of the ranks, equal numbers at the mean of theirs; NaN if all are equal."""
    ranks = [_ranks(values) for values in (one, other)]
    if any(np.ptp(rank) == 0 for rank in ranks):
        return float("nan")
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[places])
