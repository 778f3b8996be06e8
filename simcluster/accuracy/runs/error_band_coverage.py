"""The error bands of results, made from runs, and whether they hold for runs that they do not know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from fractions import Fraction
from itertools import accumulate

from simcluster.accuracy.runs.predict import RunFigure, RunPrediction
from simcluster.deferred_dataclass import dataclass
from simcluster.simulation import BandTable, ErrorBand, RunKind

LEAST_RUNS = 9
"""Of fewer runs nothing can be said that holds for nine of ten further ones."""


def band_table(predictions: Sequence[RunPrediction]) -> str:
    """The table of error bands as it is shipped, YAML whose rows are JSON; above it stands how it fares on
    runs left out.
    """
    runs = measured_errors(predictions)
    table = bands_of(runs)
    lines = ["# Made by simcluster accuracy RUNS.csv --bands FILE from published runs; not written by hand."]
    for what, (inside, known) in coverage(runs).items():
        share = f"{inside / (known or 1):.0%}"
        lines.append(f"# Of runs whose {what} is left out {inside:,} of {known:,} lie inside ({share}).")
    lines += ["# A band that stands for another kind is so many times as wide:"]
    lines += [f"borrowed: {table.borrowed:.4f}", "step_time:"]
    lines += ["  # device, framework, plan, runs, median, nine of ten within"]
    for kind, band in table.bands.items():
        numbers = f"{band.runs}, {band.median:.4f}, {band.nine_of_ten:.4f}"
        lines.append(f'  - ["{kind.device}", "{kind.framework}", "{kind.plan}", {numbers}]')
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class RunError:
    """How far the predicted step of a measured run is off (predicted / measured - 1)."""

    publisher: str
    model: str
    kind: RunKind
    error: float


def measured_errors(predictions: Iterable[RunPrediction]) -> list[RunError]:
    """The errors of all steps that are predicted."""
    return [
        RunError(prediction.row.group, prediction.row.words["model"], prediction.kind, prediction.error)
        for prediction in predictions
        if prediction.figure is RunFigure.STEP and not prediction.reason and prediction.kind is not None
    ]


def band_of(errors: Sequence[float]) -> ErrorBand:
    """The band of errors (predicted / measured - 1).

    The second size is the ceil(0.9 (n + 1))-th smallest: nine of ten runs drawn as these were then lie
    inside (conformal prediction: Vovk, Gammerman, Shafer, Algorithmic Learning in a Random World, 2005).
    """
    sizes = sorted(map(abs, errors))
    middle = (sizes[(len(sizes) - 1) // 2] + sizes[len(sizes) // 2]) / 2
    return ErrorBand(len(sizes), middle, sizes[_nine_of_ten(len(sizes))])


def _nine_of_ten(count: int) -> int:
    """The place, from 0, of the size in that order."""
    return min(count, -(-9 * (count + 1) // 10)) - 1


def bands_of(runs: Sequence[RunError]) -> BandTable:
    """The bands of all kinds, and of kinds put together, of which there are runs enough.

    How much wider borrowed ones are: as much as nine of ten runs that borrow one need when the table is made
    without their publisher, and never less than 1. Every publisher has the same weight there, because one
    publisher's runs err alike, and what the table does not have is a publisher (Dunn, Wasserman, Ramdas,
    Distribution-free prediction sets for two-layer hierarchical models, 2022).
    """
    needed = sorted(
        (abs(run.error) / nearest[1].nine_of_ten, run.publisher)
        for run, nearest in _bands_without(runs, [run.publisher for run in runs], _own_bands)
        if nearest[0] != run.kind and nearest[1].nine_of_ten
    )
    borrowed = 1.0
    if len(needed) >= LEAST_RUNS:
        counts = Counter(publisher for _, publisher in needed)
        shares = accumulate(Fraction(1, counts[publisher] * len(counts)) for _, publisher in needed)
        borrowed = next(
            factor for (factor, _), share in zip(needed, shares, strict=True) if share >= Fraction(9, 10)
        )
    return BandTable(_own_bands(runs).bands, max(1.0, borrowed))


def _own_bands(runs: Iterable[RunError]) -> BandTable:
    by_kind: dict[RunKind, list[float]] = {}
    for run in runs:
        by_kind.setdefault(run.kind, []).append(run.error)
    groups: dict[RunKind, list[float]] = {}
    for kind, errors in by_kind.items():
        for level in kind.levels():
            groups.setdefault(level, []).extend(errors)
    return BandTable(
        {
            kind: band_of(groups[kind])
            for kind in sorted(groups, key=lambda kind: tuple(asdict(kind).values()))
            if len(groups[kind]) >= LEAST_RUNS
        }
    )


def coverage(runs: Sequence[RunError]) -> dict[str, tuple[int, int]]:
    """How many measured runs lie within nine-of-ten bands made without them, and of how many.

    By what is left out at once: every tenth run (in the order of the file), a model of a publisher, or a
    publisher. Runs of which not even of a near kind anything is known do not count.
    """
    folds = {
        "tenth": [f"{place % 10}" for place in range(len(runs))],
        "model": [f"{run.publisher} {run.model}" for run in runs],
        "publisher": [run.publisher for run in runs],
    }
    inside = {
        what: [abs(run.error) <= band.nine_of_ten for run, (_, band) in _bands_without(runs, fold, bands_of)]
        for what, fold in folds.items()
    }
    return {what: (sum(verdicts), len(verdicts)) for what, verdicts in inside.items()}


def _bands_without(
    runs: Sequence[RunError], folds: Sequence[str], table_of: Callable[[Sequence[RunError]], BandTable]
) -> Iterator[tuple[RunError, tuple[RunKind, ErrorBand]]]:
    """Each run with the band of a table that is made without its fold, where that table knows one."""
    for fold in dict.fromkeys(folds):
        table = table_of([run for run, other in zip(runs, folds, strict=True) if other != fold])
        for run, own in zip(runs, folds, strict=True):
            if own == fold and (nearest := table.nearest(run.kind)) is not None:
                yield run, nearest
