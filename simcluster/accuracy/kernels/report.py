"""Errors against measured kernels, to read or as comma-separated values."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from simcluster import units
from simcluster.accuracy.kernels.grouping import KernelGrouping
from simcluster.accuracy.kernels.predict import KernelPrediction
from simcluster.accuracy.kernels.row import COLUMNS, MeasuredKernel
from simcluster.accuracy.report import farthest_off, not_predicted
from simcluster.accuracy.summary import FIGURES, Errors, worst
from simcluster.draw import Column, csv_text, quantities, render_text, text_table

_ADDED = ("catalog_device", "how", "measured_us", "predicted_us", "error", "not_predicted")


def kernel_errors(
    predictions: Sequence[KernelPrediction], by: KernelGrouping = KernelGrouping.SIZE
) -> dict[str, Errors]:
    """The errors of the predicted rows by group, sorted, and of all of them."""
    groups: dict[str, list[KernelPrediction]] = {}
    done = [prediction for prediction in predictions if not prediction.reason]
    for prediction in done:
        groups.setdefault(by.of(prediction), []).append(prediction)
    ordered = {name: Errors.of(groups[name]) for name in sorted(groups)}
    return ordered | ({"all": Errors.of(done)} if done else {})


def kernels_text(
    predictions: Sequence[KernelPrediction],
    num_worst: int = 0,
    by: KernelGrouping = KernelGrouping.SIZE,
    *,
    colour: bool = False,
) -> str:
    """The tables to read: errors by group, the rows farthest off, what was not predicted."""
    done = [prediction for prediction in predictions if not prediction.reason]
    parts: list[RenderableType] = [
        Text(f"{len(done):,} of {len(predictions):,} kernels predicted from their device's file", "bold")
    ]
    if done:
        lines = [[name, *errors.cells] for name, errors in kernel_errors(done, by).items()]
        parts += ["", text_table([Column(str(by), wraps=True), *quantities(*FIGURES)], lines)]
    if num_worst and done:
        parts += farthest_off("kernels", _worst(worst(done, num_worst)))
    parts += not_predicted(predictions)
    what = "error = predicted / measured time - 1; bias: the median error, + where the prediction is slower"
    return render_text(*parts, "", Text(what, "dim"), colour=colour)


def kernel_rows_csv(rows: Sequence[MeasuredKernel]) -> str:
    """Measured kernels as the file that ``read_kernels`` reads."""
    return csv_text(COLUMNS, *map(_written, rows))


def _written(row: MeasuredKernel) -> list[str]:
    cells = {**row.words, **{title: f"{count}" for title, count in row.counts.items()}}
    cells["time_us"] = f"{row.seconds * 1e6:.7g}"
    return [cells.get(column, "") for column in COLUMNS]


def kernels_csv(predictions: Sequence[KernelPrediction]) -> str:
    """A line per row of the file, with all it says and what was predicted."""
    return csv_text((*COLUMNS, *_ADDED), *map(_line, predictions))


def _line(prediction: KernelPrediction) -> list[str]:
    figures = ["", "", ""]
    if not prediction.reason:
        times = (prediction.measured, prediction.predicted)
        figures = [*(f"{time * 1e6:.7g}" for time in times), f"{prediction.error:.6g}"]
    cells = [prediction.row.words.get(column, "") for column in COLUMNS]
    return [*cells, prediction.device, prediction.how, *figures, prediction.reason]


def _worst(rows: Sequence[KernelPrediction]) -> Table:
    titles: list[Column | str] = ["kernel", Column("op", wraps=True), Column("hardware", wraps=True), "dtype"]
    return text_table(
        [*titles, "how", *quantities("measured", "predicted", "error")],
        [
            [
                row.row.name,
                row.row.words["op"],
                row.row.hardware,
                row.row.words["dtype"],
                row.how,
                units.seconds(row.measured),
                units.seconds(row.predicted),
                units.signed_percent(row.error, 0),
            ]
            for row in rows
        ],
    )
