"""The plots of a sweep as SVG: the objective over what varies, and against memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from simcluster.draw import LIMIT, Canvas, ticks
from simcluster.sweeps.figures import MEMORY, SweepFigure, time_figure
from simcluster.sweeps.plot_axes import PlotAxes
from simcluster.sweeps.ranked_points import RankedPoints
from simcluster.sweeps.table import remark, short_names

LEFT, RIGHT, TOP, BOTTOM = 78.0, 16.0, 26.0, 46.0
_DOT = 4.5

_FAR = 0.25
"""Points that stay below this share of what a device has are drawn without it."""


class _Frame:
    """Where values lie on a canvas: both axes begin at 0, or in the middle of the first of some places."""

    def __init__(self, canvas: Canvas, across: float, up: float) -> None:
        self.canvas, self.across, self.up = canvas, across or 1.0, up or 1.0

    @property
    def ground(self) -> float:
        return self.canvas.height - BOTTOM

    def x(self, value: float) -> float:
        return LEFT + (self.canvas.width - LEFT - RIGHT) * value / self.across

    def y(self, value: float) -> float:
        return self.ground - (self.ground - TOP) * value / self.up

    def draw_ground(self, title: str) -> None:
        right = self.canvas.width - RIGHT
        self.canvas.line(LEFT, self.ground, right, self.ground, strong=True)
        self.canvas.text((LEFT + right) / 2, self.canvas.height - 8, title, anchor="middle", faint=True)

    def draw_height(self, figure: SweepFigure) -> None:
        for mark in _marks(self.up, figure):
            self.canvas.line(LEFT, self.y(mark), self.canvas.width - RIGHT, self.y(mark))
            self.canvas.text(LEFT - 8, self.y(mark) + 4, _short(figure, mark), anchor="end", faint=True)
        self.canvas.text(8, 14, figure.title, faint=True)


def lines_svg(
    ranked: RankedPoints, axes: PlotAxes, choices: Sequence[int], width: float, height: float
) -> str:
    """The objective over the key along the axis, a colour for each value of the second key.

    A filled dot is a point that fits, a ring one that does not, a cross at the bottom one without figures.
    All plots of a sweep have one scale.
    """
    figure, space = ranked.objective, ranked.space
    along = axes.x(space)
    canvas = Canvas(width, height, f"{figure.title} over {along.key}")
    frame = _Frame(canvas, len(along.values), _highest(ranked, figure))
    frame.draw_height(figure)
    step = frame.x(1) - frame.x(0)
    every = max(1, round(max(len(label) for label in along.labels) * 7 / step + 0.4))
    for place, label in enumerate(along.labels):
        if place % every == 0:
            canvas.text(frame.x(place + 0.5), frame.ground + 16, label, anchor="middle")
    names = short_names([variation.key for variation in space.variations])
    frame.draw_ground(names[axes.along])
    lines = [places for _, places in sorted(axes.lines(ranked, choices).items())]
    for number, places in enumerate(lines):
        last: tuple[float, float] | None = None
        for place in places:
            point, row = ranked.points[place]
            tone = axes.tone(space, point)
            x, value = frame.x(space.choices(point)[axes.along] + 0.5), row.get(figure.column)
            title = _tooltip(ranked, point)
            if value is None:
                side = 7 * (number - (len(lines) - 1) / 2)
                _cross(canvas, x + side, frame.ground - 6, tone.colour, title)
                last = None
                continue
            y = frame.y(value)
            if last is not None and along.is_numeric:
                canvas.line(*last, x, y, strong=True, colour=tone.colour)
            last = (x, y)
            _dot(canvas, x, y, tone.colour, title, filled=row["fits"], ringed=point == ranked.best_point)
    return canvas.render()


def memory_svg(ranked: RankedPoints, axes: PlotAxes, width: float, height: float) -> str:
    """The objective against the memory of the fullest device, with the Pareto front and what a device has."""
    figure, space = time_figure(ranked.objective, ranked.figures), ranked.space
    rows = [(point, row) for point, row in ranked.points if row.get(figure.column) is not None]
    canvas = Canvas(width, height, f"{figure.title} against memory")
    limit = ranked.capacity
    widest = max((row[MEMORY.column] for _, row in rows), default=0)
    if limit is not None and widest < _FAR * limit:
        limit = None
    widest = max(widest, limit or 0)
    frame = _Frame(canvas, 1.04 * widest, _highest(ranked, figure))
    frame.draw_height(figure)
    unit = 2.0**30
    for mark in ticks(widest / unit, 8):
        canvas.text(frame.x(mark * unit), frame.ground + 16, f"{mark:g} GiB", anchor="middle", faint=True)
    frame.draw_ground("memory that the fullest device needs")
    if limit:
        canvas.line(frame.x(limit), TOP - 4, frame.x(limit), frame.ground, strong=True, colour=LIMIT)
        canvas.text(frame.x(limit), TOP - 10, "what a device has", anchor="middle", faint=True)
    by_point = dict(rows)
    front = [by_point[point] for point in ranked.front]
    for first, second in pairwise(front):
        start = (frame.x(first[MEMORY.column]), frame.y(first[figure.column]))
        end = (frame.x(second[MEMORY.column]), frame.y(second[figure.column]))
        # What is between two points of the front takes at least the memory of the one, the time of the other.
        canvas.line(*start, start[0], end[1], strong=True)
        canvas.line(start[0], end[1], *end, strong=True)
    for point, row in rows:
        _dot(
            canvas,
            frame.x(row[MEMORY.column]),
            frame.y(row[figure.column]),
            axes.tone(space, point).colour,
            _tooltip(ranked, point),
            filled=row["fits"],
            ringed=point == ranked.best_point,
        )
    return canvas.render()


def _highest(ranked: RankedPoints, figure: SweepFigure) -> float:
    values = [row[figure.column] for _, row in ranked.points if row.get(figure.column) is not None]
    return 1.05 * max(values, default=0.0)


def _marks(highest: float, figure: SweepFigure) -> list[float]:
    """Round values of a figure up to the highest; of bytes round numbers of GiB."""
    unit = 2.0**30 if figure is MEMORY else 1.0
    return [mark * unit for mark in ticks(highest / unit, 6)]


def _short(figure: SweepFigure, value: float) -> str:
    """``2 s`` and not ``2.00 s``."""
    number, blank, unit = figure.reading(value).partition(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number}{blank}{unit}"


def _tooltip(ranked: RankedPoints, point: int) -> str:
    row = dict(ranked.points)[point]
    settings = ", ".join(f"{key}={text}" for key, text in ranked.space.changes(point))
    figures = [
        f"{figure.title} {figure.reading(row[figure.column])}"
        for figure in dict.fromkeys((ranked.objective, MEMORY))
        if row.get(figure.column) is not None
    ]
    return "; ".join(filter(None, (settings, *figures, remark(ranked, point, row))))


def _dot(canvas: Canvas, x: float, y: float, colour: str, title: str, *, filled: bool, ringed: bool) -> None:
    """A dot, a ring where it is not filled, and another ring around it for the best."""
    canvas.path(_circle(x, y, _DOT) + ("" if filled else _circle(x, y, _DOT - 1.8, back=True)), colour, title)
    if ringed:
        canvas.path(_circle(x, y, _DOT + 4.5) + _circle(x, y, _DOT + 2.8, back=True), "currentColor", title)


def _circle(x: float, y: float, radius: float, *, back: bool = False) -> str:
    """The outline of a circle; one that goes back makes a hole in one that goes forth."""
    way = 0 if back else 1
    arc = f"A{radius:.1f} {radius:.1f} 0 1 {way}"
    return f"M{x - radius:.1f} {y:.1f}{arc} {x + radius:.1f} {y:.1f}{arc} {x - radius:.1f} {y:.1f}z"


def _cross(canvas: Canvas, x: float, y: float, colour: str, title: str) -> None:
    size, thick = 3.5, 1.0
    corners = [(-size, -size), (size, size), (size, -size), (-size, size)]
    for (x1, y1), (x2, y2) in (corners[:2], corners[2:]):
        slant = thick if (x2 - x1) * (y2 - y1) < 0 else -thick
        points = [
            (x1 - thick, y1 - slant),
            (x1 + thick, y1 + slant),
            (x2 + thick, y2 + slant),
            (x2 - thick, y2 - slant),
        ]
        canvas.path("M" + "L".join(f"{x + dx:.1f} {y + dy:.1f}" for dx, dy in points) + "z", colour, title)
