"""A sweep as a table: for a terminal, and as rows of text for a page."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from rich.text import Text

from simcluster.draw import Cell, Column, render_text, screen_width, text_table
from simcluster.sweeps.figures import (
    BUBBLE,
    CAPACITY,
    EXPOSED,
    FIRST_TOKEN,
    FURTHER_TOKEN,
    LATENCY,
    MEMORY,
    MFU,
    RATE,
    STEP,
    SweepFigure,
    time_figure,
)
from simcluster.sweeps.point import Row
from simcluster.sweeps.result import SweepResult

_SHOWN = (STEP, FIRST_TOKEN, FURTHER_TOKEN, LATENCY, RATE, MFU, BUBBLE, EXPOSED, MEMORY)
"""Figures that a table has, of those that a row has."""

_LEFT_OUT = (EXPOSED, BUBBLE, RATE, MFU)
"""Of these, those that narrow screens do without, one after another."""

_GAP = 2

_STYLES = {"fits": "green", "tight": "yellow", "does not fit": "red"}


def sweep_text(
    result: SweepResult, *, top: int | None = None, ordered: bool = True, colour: bool = False
) -> str:
    """The table, best first or, unless ``ordered``, in the order of points; of many rows the ``top`` ones."""
    places = result.ranked if ordered else list(range(len(result.points)))
    shown = places if top is None else places[:top]
    notes: dict[str, int] = {}
    figures = _fitting_figures(result, shown)
    rows = [_row(result, place, figures, notes) for place in shown]
    parts = [Text.assemble((result.name, "bold"), f": {_summary(result)}")]
    if rows:
        parts.append(text_table(sweep_columns(result, figures), rows))  # type: ignore[arg-type]
    if len(shown) < len(places):
        parts.append(Text(f"... and {len(places) - len(shown):,} more", "dim"))
    if notes:
        listed = [(f"({number})", reason) for reason, number in notes.items()]
        parts.append(text_table([Column(), Column(wraps=True)], listed, indent=2))  # type: ignore[arg-type]
    parts += [Text(line) for line in conclusions(result)]
    return render_text(*parts, colour=colour)


def shown_figures(result: SweepResult) -> list[SweepFigure]:
    """The figures of the table: the usual ones, and the objective."""
    return [figure for figure in result.figures if figure in _SHOWN or figure is result.objective]


def sweep_columns(result: SweepResult, figures: Sequence[SweepFigure]) -> list[Column]:
    """The columns of the table with some figures."""
    titles = short_names([variation.key for variation in result.space.variations])
    keys = [
        Column(title, quantity=variation.is_numeric)
        for title, variation in zip(titles, result.space.variations, strict=True)
    ]
    return [*keys, *(Column(_title(result, figure), quantity=True) for figure in figures), Column()]


def _title(result: SweepResult, figure: SweepFigure) -> str:
    """The title of a figure; that of memory says how much devices have, if all have as much."""
    limit = result.capacity if figure is MEMORY else None
    return figure.title if limit is None else f"{figure.title} of {CAPACITY.reading(limit)}"


def sweep_cells(result: SweepResult, place: int, figures: Sequence[SweepFigure]) -> list[str]:
    """The cells of a row of the table with some figures."""
    point, row = result.points[place]
    choices = result.space.choices(point)
    labels = [
        variation.labels[chosen] for variation, chosen in zip(result.space.variations, choices, strict=True)
    ]
    readings = [
        figure.reading(row[figure.column]) if row.get(figure.column) is not None else "-"
        for figure in figures
    ]
    return [*labels, *readings, remark(result, point, row)]


def remark(result: SweepResult, point: int, row: Row) -> str:
    """What is said of a point: best, on the front, or why it does not fit or is impossible."""
    if row["fits"]:
        marks = ["best"] if point == result.best_point else []
        if point in result.front:
            marks.append("Pareto")
        return ", ".join(marks)
    reason = row["reason"]
    if _says_it_all(result, row):
        return str(row["verdict"])
    return reason if reason.lower().startswith(row["verdict"]) else f"{row['verdict']}: {reason}"


def _says_it_all(result: SweepResult, row: Row) -> bool:
    """Whether the memory of a row, and how much devices have, say why it does not fit."""
    over = row.get(MEMORY.column, 0) > row.get(CAPACITY.column, 0) and result.capacity is not None
    return row["verdict"] == "tight" or over


def conclusions(result: SweepResult) -> list[str]:
    """What follows, in sentences: the best, and the front of the objective against memory."""
    lines = []
    if result.best_point is not None:
        best = dict(result.points)[result.best_point]
        settings = " ".join(
            f"--set {quote(f'{key}={text}')}" for key, text in result.space.changes(result.best_point)
        )
        value = result.objective.reading(best[result.objective.column])
        lines.append(f"best by {result.objective.title}: {value} with {settings}")
        against = time_figure(result.objective, result.figures).title
        noun = "point" if len(result.front) == 1 else "points"
        lines.append(f"Pareto front of {against} against memory: {len(result.front)} {noun}")
    elif result.points:
        lines.append("no point fits" + _nearest_miss(result))
    return lines


def _nearest_miss(result: SweepResult) -> str:
    """Of the points that have figures the one that lacks the least memory."""
    missing = [
        (row[MEMORY.column] / row[CAPACITY.column], point)
        for point, row in result.points
        if row.get(MEMORY.column) is not None
    ]
    if not missing:
        return ""
    _, point = min(missing)
    settings = " ".join(f"{key}={text}" for key, text in result.space.changes(point))
    reason = dict(result.points)[point]["reason"]
    return f"; the nearest is {settings}: {reason.removeprefix('does not fit: ')}"


def short_names(keys: Sequence[str]) -> list[str]:
    """Keys by their last names, as far as that tells them apart."""
    for count in range(1, 1 + max(key.count(".") + 1 for key in keys)):
        names = [".".join(key.split(".")[-count:]) for key in keys]
        if len(set(names)) == len(names):
            return names
    return list(keys)


def _summary(result: SweepResult) -> str:
    total, done = result.space.num_points, len(result.points)
    counts: dict[str, int] = {}
    for _, row in result.points:
        counts[row["verdict"]] = counts.get(row["verdict"], 0) + 1
    shares = ", ".join(f"{count:,} {_verb(verdict, count)}" for verdict, count in counts.items())
    points = f"{total:,} points" if done == total else f"{done:,} of {total:,} points"
    return f"{points}: {shares}" if shares else points


def _verb(verdict: str, count: int) -> str:
    if verdict == "fits":
        return "fits" if count == 1 else "fit"
    if verdict == "does not fit":
        return verdict if count == 1 else "do not fit"
    return verdict


def _fitting_figures(result: SweepResult, places: Sequence[int]) -> list[SweepFigure]:
    """The figures for which the screen has room."""
    figures = shown_figures(result)
    for left_out in _LEFT_OUT:
        columns = sweep_columns(result, figures)
        lines = [[column.title for column in columns]]
        lines += [list(map(str, _row(result, place, figures, {}))) for place in places]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        if sum(widths) + _GAP * len(widths) <= screen_width():
            break
        figures = [figure for figure in figures if figure is not left_out or figure is result.objective]
    return figures


def _row(
    result: SweepResult, place: int, figures: Sequence[SweepFigure], notes: dict[str, int]
) -> list[Cell]:
    """The row with its colours; a long reason becomes one of the notes below the table, by its number."""
    point, row = result.points[place]
    cells: list[Cell] = list(sweep_cells(result, place, figures))
    if not row["fits"] and not _says_it_all(result, row):
        number = notes.setdefault(row["reason"], len(notes) + 1)
        cells[-1] = f"{row['verdict']} ({number})"
    style = "bold green" if point == result.best_point else _STYLES.get(row["verdict"], "dim")
    cells[-1] = Text(str(cells[-1]), style)
    return cells
