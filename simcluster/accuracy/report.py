"""Errors against published measurements, to read or as comma-separated values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from simcluster import units
from simcluster.accuracy.hardware import known_hardware
from simcluster.accuracy.prediction import PRICED, FigurePrediction, Prediction
from simcluster.accuracy.row import COLUMNS
from simcluster.accuracy.summary import (
    FIGURES,
    CollectiveGrouping,
    Errors,
    Key,
    SizeClass,
    by_operation,
    errors_by_key,
    overall,
    unsupported,
    worst,
)
from simcluster.draw import Column, csv_text, quantities, render_text, text_table

_ADDED = ("cluster", "algorithm", "measured_us", "predicted_us", "error", "size_class", "not_predicted")


def accuracy_text(
    predictions: Sequence[Prediction],
    num_worst: int = 0,
    by: CollectiveGrouping = CollectiveGrouping.HARDWARE,
    *,
    colour: bool = False,
) -> str:
    """The tables to read: by group, by operation, overall; then what was not predicted."""
    done = [prediction for prediction in predictions if not prediction.reason]
    parts: list[RenderableType] = [Text(_head(predictions, len(done)), "bold")]
    if done:
        titles = ("hardware", "operation") if by is CollectiveGrouping.HARDWARE else (str(by),)
        parts += ["", _table(titles, errors_by_key(done, by.of))]
        parts += [
            "",
            _table(("operation",), errors_by_key(done, by_operation) | errors_by_key(done, overall)),
        ]
    if num_worst:
        parts += farthest_off("rows", _worst(worst(done, num_worst)))
    parts += not_predicted(predictions)
    if any(not prediction.cluster and prediction.row.operation in PRICED for prediction in predictions):
        known = "; ".join(dict.fromkeys(entry.words for entry in known_hardware()))
        parts += ["", Text(f"Hardware that is known: {known}; any other with --cluster NAME", "dim")]
    what = "error = predicted / measured time - 1; bias: the median error, + where the prediction is slower"
    return render_text(*parts, "", Text(what, "dim"), colour=colour)


def farthest_off(noun: str, table: Table) -> list[RenderableType]:
    """The table of what is farthest off, with its title."""
    counted = noun.removesuffix("s") if table.row_count == 1 else f"{table.row_count} {noun}"
    return ["", Text(f"The {counted} farthest off", "bold"), table]


def not_predicted(predictions: Sequence[FigurePrediction]) -> list[RenderableType]:
    """Why rows were not predicted, and how many for each reason, with a title; nothing if all were."""
    rows = [(f"{count}", why) for why, count in unsupported(predictions)]
    table = text_table([Column(quantity=True), Column(wraps=True)], rows)
    return ["", Text("Not predicted", "bold"), table] if rows else []


def accuracy_csv(predictions: Sequence[Prediction]) -> str:
    """A line per row of the file, with all it says and what was predicted."""
    rows = ([*_written(prediction), *_predicted(prediction)] for prediction in predictions)
    return csv_text((*COLUMNS, *_ADDED), *rows)


def accuracy_markdown(parts: Iterable[Mapping[Key, Mapping[SizeClass, Errors]]]) -> str:
    """A Markdown table: a line per key of each part, with rows, median and bias of both size classes."""
    lines = ["| | " + " | ".join(f"{size} | median | bias" for size in SizeClass) + " |"]
    lines.append("|---|" + "--:|" * 6)
    for groups in parts:
        for key, sizes in groups.items():
            cells = [_brief(sizes.get(size)) for size in SizeClass]
            lines.append(f"| {', '.join(key)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _head(predictions: Sequence[Prediction], done: int) -> str:
    missing = len(predictions) - done
    return f"{done:,} of {len(predictions):,} rows predicted" + (f", {missing:,} not" if missing else "")


def _table(titles: Sequence[str], groups: Mapping[Key, Mapping[SizeClass, Errors]]) -> RenderableType:
    columns = [Column(titles[0], wraps=True), *(Column(title) for title in titles[1:]), Column("size")]
    columns += quantities(*FIGURES)
    rows = []
    for key, sizes in groups.items():
        rows += [[*key, str(size), *errors.cells] for size, errors in sizes.items()]
    return text_table(columns, rows)


def _brief(errors: Errors | None) -> str:
    if errors is None:
        return " | | "
    return f"{errors.rows:,} rows | {units.percent(errors.median)} | {units.signed_percent(errors.bias)}"


def _worst(rows: Sequence[Prediction]) -> Table:
    figures = quantities("ranks", "size", "measured", "predicted", "error")
    return text_table(
        ["row", Column("hardware", wraps=True), "operation", *figures, "how"],
        [
            [
                prediction.row.name,
                prediction.row.hardware,
                prediction.row.operation,
                f"{prediction.row.num_devices}",
                units.size(prediction.row.size),
                units.seconds(prediction.measured),
                units.seconds(prediction.predicted),
                units.signed_percent(prediction.error, 0),
                prediction.how,
            ]
            for prediction in rows
        ],
    )


def _written(prediction: Prediction) -> list[str]:
    row = prediction.row
    figures = (
        (row.seconds, 1e6),
        (row.algbw, 1e-9),
        (row.busbw, 1e-9),
    )
    return [
        row.name,
        row.source,
        row.operation,
        row.hardware,
        f"{row.num_devices}",
        f"{row.num_hosts}",
        "" if row.num_bytes is None else f"{row.num_bytes}",
        *("" if value is None else f"{value * factor:.10g}" for value, factor in figures),
        row.notes,
    ]


def _predicted(prediction: Prediction) -> list[str]:
    if prediction.reason:
        return [prediction.cluster, "", "", "", "", SizeClass.of(prediction), prediction.reason]
    times = (
        f"{prediction.measured * 1e6:.10g}",
        f"{prediction.predicted * 1e6:.10g}",
        f"{prediction.error:.6g}",
    )
    return [prediction.cluster, prediction.how, *times, SizeClass.of(prediction), ""]
