"""The error bands of results, made from runs, and whether they hold for runs that they do not know."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from simcluster.accuracy.runs.predict import RunFigure, RunPrediction
from simcluster.analysis import RunKind, bands_of, bands_yaml, nearest_band


def band_table(predictions: Sequence[RunPrediction]) -> str:
    """The table of error bands as it is shipped; how it fares on runs left out stands above it."""
    errors = _errors(predictions)
    lines = ["Made by simcluster accuracy RUNS.csv --bands FILE from published runs; not written by hand."]
    for what, (inside, runs) in coverage(predictions).items():
        lines.append(
            f"Of runs whose {what} is left out {inside:,} of {runs:,} lie inside"
            f" ({inside / (runs or 1):.0%})."
        )
    return bands_yaml(bands_of((kind, error) for _, kind, error in errors), lines)


def coverage(predictions: Sequence[RunPrediction]) -> dict[str, tuple[int, int]]:
    """How many measured runs lie within nine-of-ten bands made without them, and of how many.

    By what is left out at once: every tenth run (in the order of the file), a model of a publisher, or a
    publisher. Runs of which not even of a near kind anything is known do not count.
    """
    errors = _errors(predictions)
    folds = {
        "tenth": [f"{place % 10}" for place in range(len(errors))],
        "model": [f"{row.row.group} {row.row.words['model']}" for row, _, _ in errors],
        "publisher": [row.row.group for row, _, _ in errors],
    }
    return {what: _inside(errors, fold) for what, fold in folds.items()}


def _inside(errors: Sequence[tuple[RunPrediction, RunKind, float]], folds: Sequence[str]) -> tuple[int, int]:
    by_fold: dict[str, list[int]] = defaultdict(list)
    for place, fold in enumerate(folds):
        by_fold[fold].append(place)
    inside = runs = 0
    for fold, places in by_fold.items():
        known = bands_of(
            (kind, error) for (_, kind, error), other in zip(errors, folds, strict=True) if other != fold
        )
        for place in places:
            _, kind, error = errors[place]
            nearest = nearest_band(kind, known)
            if nearest is not None:
                runs += 1
                inside += abs(error) <= nearest[1].nine_of_ten
    return inside, runs


def _errors(predictions: Iterable[RunPrediction]) -> list[tuple[RunPrediction, RunKind, float]]:
    """The predicted step times with their kinds."""
    return [
        (prediction, prediction.kind, prediction.error)
        for prediction in predictions
        if prediction.figure is RunFigure.STEP and not prediction.reason and prediction.kind is not None
    ]
