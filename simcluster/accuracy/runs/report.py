"""Errors against measured runs, to read or as comma-separated values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from simcluster import units
from simcluster.accuracy.report import farthest_off, not_predicted
from simcluster.accuracy.runs.grouping import RunGrouping
from simcluster.accuracy.runs.predict import RunFigure, RunPrediction
from simcluster.accuracy.runs.ranking import rank_plans, rank_publishers
from simcluster.accuracy.runs.rows import COLUMNS
from simcluster.accuracy.summary import FIGURES, Errors, worst
from simcluster.draw import Column, csv_text, quantities, render_text, text_table

_ADDED = ("figure", "measured", "predicted", "error", "not_predicted", "assumed")

Groups = dict[tuple[str, RunFigure], Errors]


def run_errors_by_group(predictions: Sequence[RunPrediction], by: RunGrouping = RunGrouping.SOURCE) -> Groups:
    """The errors of the predicted figures by group of rows, and of all of them."""
    groups: dict[tuple[str, RunFigure], list[RunPrediction]] = {}
    overall: dict[tuple[str, RunFigure], list[RunPrediction]] = {}
    for prediction in predictions:
        if not prediction.reason and prediction.figure is not RunFigure.FITS:
            groups.setdefault((by.of(prediction.row), prediction.figure), []).append(prediction)
            overall.setdefault(("all", prediction.figure), []).append(prediction)
    ordered = {key: groups[key] for key in sorted(groups)}
    last = {("all", figure): overall[("all", figure)] for figure in RunFigure if ("all", figure) in overall}
    return {key: Errors.of(rows) for key, rows in (ordered | last).items()}


def runs_text(
    predictions: Sequence[RunPrediction],
    num_worst: int = 0,
    by: RunGrouping = RunGrouping.SOURCE,
    *,
    colour: bool = False,
) -> str:
    """The tables to read: by group of rows, plans in order, the rows farthest off, what was not predicted."""
    done = [prediction for prediction in predictions if not prediction.reason]
    head = f"{len(done):,} of {len(predictions):,} figures of {_rows(predictions):,} runs predicted"
    parts: list[RenderableType] = [Text(head, "bold")]
    if done:
        groups = run_errors_by_group(done, by)
        lines = [[name, str(figure), *errors.cells] for (name, figure), errors in groups.items()]
        titles: list[Column | str] = [
            Column("runs" if by is RunGrouping.SOURCE else str(by), wraps=True),
            "figure",
        ]
        parts += ["", text_table([*titles, *quantities(*FIGURES)], lines)]
        parts += _verdicts(done)
        parts += _rankings(done)
    if num_worst and done:
        parts += farthest_off("figures", _worst(worst(done, num_worst)))
    parts += not_predicted(predictions)
    parts += _assumed(predictions)
    what = (
        "error = predicted / measured - 1; bias: the median error, + where the prediction is slower or larger"
    )
    return render_text(*parts, "", Text(what, "dim"), colour=colour)


def runs_csv(predictions: Sequence[RunPrediction]) -> str:
    """A line per figure of the file, with all its row says and what was predicted, in SI units."""
    return csv_text((*COLUMNS, *_ADDED), *map(_line, predictions))


def _line(prediction: RunPrediction) -> list[str]:
    figures = ["", "", ""]
    if not prediction.reason:
        numbers = (prediction.measured, prediction.predicted)
        figures = [*(f"{number:.10g}" for number in numbers), f"{prediction.error:.6g}"]
    cells = [prediction.row.words.get(column, "") for column in COLUMNS]
    return [*cells, str(prediction.figure), *figures, prediction.reason, "; ".join(prediction.assumed)]


def runs_markdown(predictions: Sequence[RunPrediction]) -> str:
    """A Markdown table: a line per group and figure, with rows, median, 90th percentile and bias."""
    lines = ["| runs | figure | rows | median | p90 | bias |", "|---|---|--:|--:|--:|--:|"]
    for (name, figure), errors in run_errors_by_group(predictions).items():
        sizes = f"{units.percent(errors.median)} | {units.percent(errors.p90)}"
        bias = units.signed_percent(errors.bias)
        lines.append(f"| {name} | {figure} | {errors.rows:,} | {sizes} | {bias} |")
    return "\n".join(lines) + "\n"


def _verdicts(predictions: Sequence[RunPrediction]) -> list[RenderableType]:
    """Of how many runs it is predicted rightly whether they fit into memory; nothing if no row says it."""
    said = [prediction for prediction in predictions if prediction.figure is RunFigure.FITS]
    right = sum(prediction.predicted == prediction.measured for prediction in said)
    return ["", f"{right:,} of {len(said):,} verdicts on memory are right"] if said else []


def _rankings(predictions: Sequence[RunPrediction]) -> list[RenderableType]:
    """How well the plans of each model on each machine are put in order, with a title; nothing if few are."""
    lines = [
        [*choice, f"{ranking.rows}", f"{ranking.correlation:.2f}", units.percent(ranking.regret)]
        for choice, ranking in rank_plans(predictions).items()
    ]
    titles: list[Column | str] = ["runs", Column("model", wraps=True), *quantities("seq_len")]
    titles += [Column("hardware", wraps=True), *quantities("devices", "rows", "rank correlation", "regret")]
    table = text_table(titles, lines)
    title = Text("Plans of one model on one machine: predicted against measured order", "bold")
    return ["", title, table, *_overall_ranking(predictions)] if lines else []


def _overall_ranking(predictions: Sequence[RunPrediction]) -> list[RenderableType]:
    """The rank correlations within models and within publishers, in a line each."""
    of_models = [ranking.correlation for ranking in rank_plans(predictions).values()]
    of_publishers = list(rank_publishers(predictions).values())
    return [
        f"Rank correlation within {what}: median {np.nanmedian(values):.2f}, least {np.nanmin(values):.2f}"
        for what, values in (("a model on a machine", of_models), ("a publisher", of_publishers))
        if len(values) and not np.all(np.isnan(values))
    ]


def _assumed(predictions: Sequence[RunPrediction]) -> list[RenderableType]:
    """What was assumed, and for how many runs each, with a title; nothing if rows state all of it."""
    runs = Counter(text for text, _ in {(text, one.row.line) for one in predictions for text in one.assumed})
    rows = [(f"{count}", text) for text, count in sorted(runs.items(), key=lambda item: (-item[1], item[0]))]
    table = text_table([Column(quantity=True), Column(wraps=True)], rows)
    return (
        [
            "",
            Text(
                "Assumed, because rows do not state it (number of runs; --csv has it for every row)",
                "bold",
            ),
            table,
        ]
        if rows
        else []
    )


def _rows(predictions: Sequence[RunPrediction]) -> int:
    return len({prediction.row.line for prediction in predictions})


def _worst(rows: Sequence[RunPrediction]) -> Table:
    words, figures = ("model", "hardware"), quantities("measured", "predicted", "error")
    return text_table(
        ["run", *(Column(word, wraps=True) for word in words), *quantities("ranks"), "figure", *figures],
        [
            [
                prediction.row.name,
                prediction.row.words["model"],
                prediction.row.words["hardware"],
                f"{prediction.row.count('num_devices')}",
                str(prediction.figure),
                *(
                    figure_text(prediction.figure, value)
                    for value in (prediction.measured, prediction.predicted)
                ),
                units.signed_percent(prediction.error, 0),
            ]
            for prediction in rows
        ],
    )


def figure_text(figure: RunFigure, value: float) -> str:
    """A figure with its unit."""
    if figure is RunFigure.ACTIVATION_SHARE:
        return units.percent(value, 0)
    return units.seconds(value) if figure is RunFigure.STEP else units.size(value)
