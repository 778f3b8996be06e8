"""A plot as a still picture, for readers of notebooks that run no scripts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.draw.svg import CHARACTER, Canvas, coordinate, ticks
from simcluster.draw.svg_bars import LIMIT

_WIDTH, _RIGHT, _TOP = 900, 20, 44
_SIZE = 11
_LINE = 18
"""Pixels of a line of the legend."""


def still_picture(figure: Any) -> str:
    """The SVG of a figure that this package draws: bars in rows, stacked levels, or boxes in tiers."""
    layout = figure.layout
    title = layout.title.text or ""
    if layout.showlegend is False:
        canvas = Canvas(_WIDTH, layout.height, title)
        _tiers(canvas, figure)
    else:
        rows = list(dict.fromkeys(row for trace in figure.data if trace.type == "bar" for row in trace.y))
        left = min(300.0, 16 + max((len(row) for row in rows), default=6) * _SIZE * CHARACTER)
        plot = _Area(left, _TOP, _WIDTH - left - _RIGHT, layout.height - 150)
        names = [(trace.name, _colour(trace)) for trace in figure.data if trace.name]
        lines = _legend_lines(names)
        height = plot.top + plot.height + 46 + _LINE * len(lines)
        canvas = Canvas(_WIDTH, height, title)
        (_bars if rows else _levels)(canvas, figure, plot)
        canvas.text(
            plot.left + plot.width / 2,
            plot.top + plot.height + 30,
            layout.xaxis.title.text or "",
            anchor="middle",
            size=_SIZE,
            faint=True,
        )
        _legend(canvas, lines, plot.top + plot.height + 50)
    canvas.text(8, 20, title, size=13)
    return canvas.render()


@dataclass(frozen=True, slots=True)
class _Area:
    """Where the data are drawn, in pixels."""

    left: float
    top: float
    width: float
    height: float


def _colour(trace: Any) -> str:
    return str(trace.marker.color if trace.type == "bar" else trace.line.color)


def _x_axis(canvas: Canvas, plot: _Area, end: float) -> None:
    for value in ticks(end, 6):
        x = plot.left + value / end * plot.width if end else plot.left
        canvas.line(x, plot.top, x, plot.top + plot.height)
        canvas.text(x, plot.top + plot.height + 14, f"{value:g}", anchor="middle", size=_SIZE, faint=True)


def _bars(canvas: Canvas, figure: Any, plot: _Area) -> None:
    rows = list(
        figure.layout.yaxis.categoryarray or dict.fromkeys(row for bar in figure.data for row in bar.y)
    )
    starts: list[tuple[str, float, float, str, str]] = []
    reached = dict.fromkeys(rows, 0.0)
    for bar in figure.data:
        bases = bar.base if bar.base is not None else [None] * len(bar.y)
        shown = bar.text if bar.textposition == "inside" else [""] * len(bar.y)
        for row, length, base, text in zip(bar.y, bar.x, bases, shown, strict=True):
            start = reached[row] if base is None else base
            reached[row] = max(reached[row], start + length)
            starts.append((row, start, length, _colour(bar), text))
    end = max(reached.values(), default=0.0) or 1.0
    _x_axis(canvas, plot, end)
    step = plot.height / len(rows)
    for row, start, length, colour, text in starts:
        x, y = plot.left + start / end * plot.width, plot.top + rows.index(row) * step
        width = length / end * plot.width
        canvas.rect(x, y + 0.1 * step, width, 0.8 * step, colour)
        if text and len(text) * 9 * CHARACTER <= width:
            canvas.text(x + width / 2, y + step / 2 + 3, text, anchor="middle", size=9, colour="#16181b")
    for number, row in enumerate(rows):
        canvas.text(plot.left - 8, plot.top + (number + 0.5) * step + 4, row, anchor="end", size=_SIZE)


def _levels(canvas: Canvas, figure: Any, plot: _Area) -> None:
    limits = [shape.y0 for shape in figure.layout.shapes or ()]
    series = [(np.asarray(area.x, float), np.asarray(area.y, float), _colour(area)) for area in figure.data]
    total = np.sum([level for _, level, _ in series], axis=0)
    top = float(max(total.max(initial=0.0), *limits, 1e-9)) * 1.05
    end = float(max((times[-1] for times, _, _ in series), default=1.0)) or 1.0
    _x_axis(canvas, plot, end)
    for value in ticks(top, 5):
        y = plot.top + plot.height * (1 - value / top)
        canvas.line(plot.left, y, plot.left + plot.width, y)
        canvas.text(plot.left - 8, y + 4, f"{value:g}", anchor="end", size=_SIZE, faint=True)
    canvas.text(plot.left, plot.top - 4, figure.layout.yaxis.title.text or "", size=_SIZE, faint=True)
    below = np.zeros_like(total)
    for times, level, colour in series:
        x = plot.left + times / end * plot.width
        low, high = (plot.top + plot.height * (1 - edge / top) for edge in (below, below + level))
        canvas.path(_steps(x, high) + "L" + _steps(x, low, back=True)[1:] + "Z", colour)
        below = below + level
    for limit in limits:
        y = plot.top + plot.height * (1 - limit / top)
        canvas.line(plot.left, y, plot.left + plot.width, y, strong=True, colour=LIMIT)


def _steps(x: Any, y: Any, *, back: bool = False) -> str:
    """A line that keeps each level until the next one begins, forwards or backwards."""
    across, down = [[coordinate(value) for value in values.tolist()] for values in (x, y)]
    points = [(across[0], down[0])]
    for number in range(1, len(across)):
        points += [(across[number], down[number - 1]), (across[number], down[number])]
    if back:
        points.reverse()
    text = f"M{points[0][0]} {points[0][1]}"
    for (old_x, old_y), (new_x, new_y) in pairwise(points):
        text += f"H{new_x}" * (new_x != old_x) + f"V{new_y}" * (new_y != old_y)
    return text


def _tiers(canvas: Canvas, figure: Any) -> None:
    left, right, top, bottom = 150.0, canvas.width - _RIGHT, 50.0, canvas.height - 30
    lowest = min((y for trace in figure.data for y in trace.y), default=-1.0) or -1.0

    def place(x: float, y: float) -> tuple[float, float]:
        return left + x * (right - left), top + y / lowest * (bottom - top)

    for shape in figure.layout.shapes or ():
        one, other = place(shape.x0, shape.y0), place(shape.x1, shape.y1)
        canvas.curve(one, one, other, shape.line.width, shape.line.color == "#d93f3f", "")
    for trace in figure.data:
        if isinstance(trace.marker.color, str):
            continue  # the invisible middles of lines, for tooltips
        labelled = "text" in trace.mode
        for x, y, colour, text in zip(trace.x, trace.y, trace.marker.color, trace.text, strict=True):
            across, down = place(x, y)
            canvas.rect(across - 8, down - 8, 16, 16, colour)
            if labelled:
                canvas.text(across, down + 20, text, anchor="middle", size=9)
    axis = figure.layout.yaxis
    for value, text in zip(axis.tickvals or (), axis.ticktext or (), strict=True):
        for number, part in enumerate(text.split("<br>")):
            canvas.text(8, place(0, value)[1] + 4 + 13 * number, part, size=_SIZE, faint=number > 0)


def _legend_lines(names: Sequence[tuple[str, str]]) -> list[list[tuple[float, str, str]]]:
    """(x, name, colour) of every entry, line by line."""
    lines: list[list[tuple[float, str, str]]] = [[]]
    x = 8.0
    for name, colour in dict(names).items():
        width = 34 + len(name) * _SIZE * CHARACTER
        if x + width > _WIDTH and lines[-1]:
            lines.append([])
            x = 8.0
        lines[-1].append((x, name, colour))
        x += width
    return lines


def _legend(canvas: Canvas, lines: Sequence[Sequence[tuple[float, str, str]]], top: float) -> None:
    for number, line in enumerate(lines):
        for x, name, colour in line:
            canvas.rect(x, top + number * _LINE - 9, 10, 10, colour)
            canvas.text(x + 15, top + number * _LINE, name, size=_SIZE)
