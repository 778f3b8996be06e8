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
from simcluster.sweeps.point import IMPOSSIBLE, Row
from simcluster.sweeps.ranked_points import RankedPoints

_SHOWN = (STEP, FIRST_TOKEN, FURTHER_TOKEN, LATENCY, RATE, MFU, BUBBLE, EXPOSED, MEMORY)
"""Figures that a table has, of those that a row has."""

_LEFT_OUT = (EXPOSED, BUBBLE, RATE, MFU)
"""Of these, those that narrow screens do without, one after another."""

_GAP = 2

_DATA = "parallel.mesh.data"

_STYLES = {"fits": "green", "tight": "yellow", "does not fit": "red"}


def sweep_text(
    ranked: RankedPoints, *, top: int | None = None, ordered: bool = True, colour: bool = False
) -> str:
    """The table, best first or, unless ``ordered``, in the order of points; of many rows the ``top`` ones."""
    places = ranked.order if ordered else list(range(len(ranked.points)))
    shown = places if top is None else places[:top]
    notes: dict[str, int] = {}
    figures = _fitting_figures(ranked, shown)
    rows = [_row(ranked, place, figures, notes) for place in shown]
    parts = [Text.assemble((ranked.name, "bold"), f": {_summary(ranked)}")]
    if rows:
        parts.append(text_table(sweep_columns(ranked, figures), rows))  # type: ignore[arg-type]
    if len(shown) < len(places):
        parts.append(Text(f"... and {len(places) - len(shown):,} more", "dim"))
    if notes:
        listed = [(f"({number})", reason) for reason, number in notes.items()]
        parts.append(text_table([Column(), Column(wraps=True)], listed, indent=2))  # type: ignore[arg-type]
    parts += [Text(line) for line in conclusions(ranked)]
    return render_text(*parts, colour=colour)


def shown_figures(ranked: RankedPoints) -> list[SweepFigure]:
    """The figures of the table: the usual ones, and the objective."""
    return [figure for figure in ranked.figures if figure in _SHOWN or figure is ranked.objective]


def sweep_columns(ranked: RankedPoints, figures: Sequence[SweepFigure]) -> list[Column]:
    """The columns of the table with some figures."""
    titles = short_names([variation.key for variation in ranked.space.variations])
    keys = [
        Column(title, quantity=variation.is_numeric)
        for title, variation in zip(titles, ranked.space.variations, strict=True)
    ]
    return [*keys, *(Column(_title(ranked, figure), quantity=True) for figure in figures), Column()]


def _title(ranked: RankedPoints, figure: SweepFigure) -> str:
    """The title of a figure; that of memory says how much devices have, if all have as much."""
    limit = ranked.capacity if figure is MEMORY else None
    return figure.title if limit is None else f"{figure.title} of {CAPACITY.reading(limit)}"


def sweep_cells(ranked: RankedPoints, place: int, figures: Sequence[SweepFigure]) -> list[str]:
    """The cells of a row of the table with some figures."""
    point, row = ranked.points[place]
    choices = ranked.space.choices(point)
    labels = [
        variation.labels[chosen] for variation, chosen in zip(ranked.space.variations, choices, strict=True)
    ]
    readings = [
        figure.reading(row[figure.column]) if row.get(figure.column) is not None else "-"
        for figure in figures
    ]
    return [*labels, *readings, remark(ranked, point, row)]


def remark(ranked: RankedPoints, point: int, row: Row) -> str:
    """What is said of a point: best, on the front, or why it does not fit or is impossible."""
    if row["fits"]:
        marks = ["best"] if point == ranked.best_point else []
        if point in ranked.front:
            marks.append("Pareto")
        return ", ".join(marks)
    reason = row["reason"]
    if _says_it_all(ranked, row):
        return str(row["verdict"])
    return reason if reason.lower().startswith(row["verdict"]) else f"{row['verdict']}: {reason}"


def _says_it_all(ranked: RankedPoints, row: Row) -> bool:
    """Whether the memory of a row, and how much devices have, say why it does not fit."""
    over = row.get(MEMORY.column, 0) > row.get(CAPACITY.column, 0) and ranked.capacity is not None
    return row["verdict"] == "tight" or over


def conclusions(ranked: RankedPoints) -> list[str]:
    """What follows, in sentences: the best, and the front of the objective against memory."""
    lines = []
    if ranked.best_point is not None:
        best = dict(ranked.points)[ranked.best_point]
        settings = " ".join(
            f"--set {quote(f'{key}={text}')}" for key, text in ranked.space.changes(ranked.best_point)
        )
        value = ranked.objective.reading(best[ranked.objective.column])
        lines.append(f"best by {ranked.objective.title}: {value} with {settings}")
        against = time_figure(ranked.objective, ranked.figures).title
        noun = "point" if len(ranked.front) == 1 else "points"
        lines.append(f"Pareto front of {against} against memory: {len(ranked.front)} {noun}")
    elif ranked.points:
        lines.append("no point fits" + _nearest_miss(ranked))
    if _changes_devices(ranked):
        lines.append(f"with --set {_DATA}=auto the data axis takes what the other axes leave")
    return lines


def _changes_devices(ranked: RankedPoints) -> bool:
    """Whether points are impossible, perhaps because sizes of axes multiply to other numbers of devices."""
    keys = [variation.key for variation in ranked.space.variations]
    mesh = any(key.startswith("parallel.mesh.") for key in keys) and _DATA not in keys
    return mesh and any(row["verdict"] == IMPOSSIBLE for _, row in ranked.points)


def _nearest_miss(ranked: RankedPoints) -> str:
    """Of the points that have figures the one that lacks the least memory."""
    missing = [
        (row[MEMORY.column] / row[CAPACITY.column], point)
        for point, row in ranked.points
        if row.get(MEMORY.column) is not None
    ]
    if not missing:
        return ""
    _, point = min(missing)
    settings = " ".join(f"{key}={text}" for key, text in ranked.space.changes(point))
    reason = dict(ranked.points)[point]["reason"]
    return f"; the nearest is {settings}: {reason.removeprefix('does not fit: ')}"


def short_names(keys: Sequence[str]) -> list[str]:
    """Keys by their last names, as far as that tells them apart."""
    for count in range(1, 1 + max(key.count(".") + 1 for key in keys)):
        names = [".".join(key.split(".")[-count:]) for key in keys]
        if len(set(names)) == len(names):
            return names
    return list(keys)


def _summary(ranked: RankedPoints) -> str:
    total, done = ranked.space.num_points, len(ranked.points)
    counts: dict[str, int] = {}
    for _, row in ranked.points:
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


def _fitting_figures(ranked: RankedPoints, places: Sequence[int]) -> list[SweepFigure]:
    """The figures for which the screen has room."""
    figures = shown_figures(ranked)
    for left_out in _LEFT_OUT:
        columns = sweep_columns(ranked, figures)
        lines = [[column.title for column in columns]]
        lines += [list(map(str, _row(ranked, place, figures, {}))) for place in places]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        if sum(widths) + _GAP * len(widths) <= screen_width():
            break
        figures = [figure for figure in figures if figure is not left_out or figure is ranked.objective]
    return figures


def _row(
    ranked: RankedPoints, place: int, figures: Sequence[SweepFigure], notes: dict[str, int]
) -> list[Cell]:
    """The row with its colours; a long reason becomes one of the notes below the table, by its number."""
    point, row = ranked.points[place]
    cells: list[Cell] = list(sweep_cells(ranked, place, figures))
    if not row["fits"] and not _says_it_all(ranked, row):
        number = notes.setdefault(row["reason"], len(notes) + 1)
        cells[-1] = f"{row['verdict']} ({number})"
    style = "bold green" if point == ranked.best_point else _STYLES.get(row["verdict"], "dim")
    cells[-1] = Text(str(cells[-1]), style)
    return cells
