"""The error bands of results, made from runs, and whether they hold for runs that they do not know."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from simcluster.accuracy.runs.predict import RunFigure, RunPrediction
from simcluster.analysis import ErrorBand, RunKind, nearest_band

LEAST_RUNS = 9
"""Of fewer runs nothing can be said that holds for nine of ten further ones."""


def band_table(predictions: Sequence[RunPrediction]) -> str:
    """The table of error bands as it is shipped; how it fares on runs left out stands above it."""
    errors = _errors(predictions)
    lines = ["Made by simcluster accuracy RUNS.csv --bands FILE from published runs; not written by hand."]
    for what, (inside, runs) in coverage(predictions).items():
        lines.append(
            f"Of runs whose {what} is left out {inside:,} of {runs:,} lie inside"
            f" ({inside / (runs or 1):.0%})."
        )
    return _bands_yaml(bands_of((kind, error) for _, kind, error in errors), lines)


def _bands_yaml(bands: Mapping[RunKind, ErrorBand], remarks: Iterable[str]) -> str:
    """The table as it is shipped: a line per kind, each a list in JSON."""
    lines = [*(f"# {remark}" for remark in remarks), "step_time:"]
    lines += ["  # device, framework, plan, runs, median, nine of ten within"]
    for kind, band in bands.items():
        numbers = f"{band.runs}, {band.median:.4f}, {band.nine_of_ten:.4f}"
        lines.append(f'  - ["{kind.device}", "{kind.framework}", "{kind.plan}", {numbers}]')
    return "\n".join(lines) + "\n"


def band_of(errors: Sequence[float]) -> ErrorBand:
    """The band of errors (predicted / measured - 1).

    The second size is the ceil(0.9 (n + 1))-th smallest: nine of ten runs drawn as these were then lie
    inside (conformal prediction: Vovk, Gammerman, Shafer, Algorithmic Learning in a Random World, 2005).
    """
    sizes = sorted(map(abs, errors))
    rank = min(len(sizes), -(-9 * (len(sizes) + 1) // 10))
    middle = (sizes[(len(sizes) - 1) // 2] + sizes[len(sizes) // 2]) / 2
    return ErrorBand(len(sizes), middle, sizes[rank - 1])


def bands_of(errors: Iterable[tuple[RunKind, float]]) -> dict[RunKind, ErrorBand]:
    """The bands of all kinds, and of kinds put together, of which there are runs enough."""
    groups: dict[RunKind, list[float]] = {}
    for kind, error in errors:
        for level in kind.levels():
            groups.setdefault(level, []).append(error)
    return {
        kind: band_of(groups[kind])
        for kind in sorted(groups, key=lambda kind: tuple(asdict(kind).values()))
        if len(groups[kind]) >= LEAST_RUNS
    }


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
