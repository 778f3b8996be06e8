"""Levels over time as SVG: stacked areas of steps under a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from simcluster import units
from simcluster.draw.svg import CHARACTER, Canvas, coordinate, time_label, time_ticks
from simcluster.draw.svg_bars import LIMIT
from simcluster.draw.tone import Tone
from simcluster.number_arrays import Floats

TOP, BOTTOM, FONT_SIZE = 10, 22, 10

FAR = 0.25
"""Levels that stay below this share of their limit are drawn without it."""


def thin_levels(times: Floats, levels: Floats, end: float, count: int) -> NDArray[np.int64]:
    """For each of ``count`` equal spans of time up to ``end``, the index of its highest moment.

    ``levels`` [series, moments] holds from ``times`` [moments] (sorted, the first at 0) to the next moment;
    the highest moment is that with the largest sum over series.
    """
    height = levels.sum(axis=0)
    edges = np.linspace(0.0, end, count + 1)
    # A level that began before the span still holds at its start.
    first = np.maximum(np.searchsorted(times, edges[:-1], side="right") - 1, 0)
    last = np.searchsorted(times, edges[1:], side="left")
    return np.array(
        [
            start + int(np.argmax(height[start : max(stop, start + 1)]))
            for start, stop in zip(first.tolist(), last.tolist(), strict=True)
        ],
        dtype=np.int64,
    )


def stacked_area(
    times: Floats,
    levels: Floats,
    series: Sequence[tuple[str, Tone]],
    reading: Callable[[float], str],
    *,
    end: float,
    limit: float | None = None,
    line: tuple[Floats, Floats] | None = None,
    width: float = 960,
    height: float = 190,
    columns: int = 360,
) -> str:
    """The SVG of ``levels`` [series, moments] over ``times`` [moments] (seconds), the first series lowest.

    Each of ``columns`` columns shows the highest moment of its span of time. A limit that is far off is not
    drawn: the levels would be flat. ``line``: (times, levels) of another level, drawn as a line.
    """
    chosen = thin_levels(times, levels, end, columns)
    tops = np.cumsum(levels[:, chosen], axis=0)
    highest = float(tops[-1].max()) if tops.size else 0.0
    if line is not None:
        highest = max(highest, float(line[1].max()))
    if limit is not None and highest < FAR * limit:
        limit = None
    largest = max(highest, limit or 0.0) or 1.0
    marks = [largest * share for share in (0.0, 0.5, 1.0)] if limit is None else [0.0, limit / 2, limit]
    margin = 12 + FONT_SIZE * CHARACTER * max(len(reading(mark)) for mark in marks)
    canvas = Canvas(width, height, f"levels over {units.seconds(end)}")
    across, up = (width - margin - 8) / columns, (height - TOP - BOTTOM) / largest
    ground = height - BOTTOM
    for tick in time_ticks(end, 8):
        x = margin + tick / end * columns * across
        canvas.line(x, TOP, x, ground + 3)
        canvas.text(x, height - 7, time_label(tick), anchor="middle", size=FONT_SIZE, faint=True)
    lower = np.full(columns, ground)
    for (name, tone), top in zip(series, tops, strict=True):
        upper = ground - top * up
        if np.any(lower - upper > 0.05):
            outline = _steps(upper, margin, across) + _steps(lower, margin, across, back=True) + "z"
            canvas.path("M" + outline[1:], tone.colour, name)
        lower = upper
    if line is not None:
        _outline(canvas, line, [margin, across * columns / end, ground, up])
    for mark in marks:
        y = ground - mark * up
        strong = mark == limit
        canvas.line(margin, y, width - 8, y, strong=strong, colour=LIMIT if strong else "currentColor")
        canvas.text(margin - 6, y + 3.5, reading(mark), anchor="end", size=FONT_SIZE, faint=not strong)
    return canvas.render()


def _outline(canvas: Canvas, line: tuple[Floats, Floats], frame: Sequence[float]) -> None:
    """A level over time as a line of steps; ``frame``: left, width per second, ground, height per unit."""
    left, across, ground, up = frame
    starts, levels = line
    for index, (start, level) in enumerate(zip(starts.tolist(), levels.tolist(), strict=True)):
        x, y = left + start * across, ground - level * up
        last = index + 1 == len(starts)
        to = canvas.width - 8 if last else left + starts[index + 1] * across
        canvas.line(x, y, to, y, strong=True)
        if not last:
            canvas.line(to, y, to, ground - levels[index + 1] * up, strong=True)


def _steps(heights: Floats, left: float, across: float, *, back: bool = False) -> str:
    """A line of steps through one height per column, from left to right or ``back``."""
    rounded = np.round(heights, 1)
    if back:
        rounded = rounded[::-1]
    changes = np.flatnonzero(np.append(True, rounded[1:] != rounded[:-1]))
    ends = np.append(changes[1:], len(rounded))
    pieces = []
    for index, (start, end) in enumerate(zip(changes.tolist(), ends.tolist(), strict=True)):
        y = coordinate(float(rounded[start]))
        at, to = (len(rounded) - start, len(rounded) - end) if back else (start, end)
        pieces.append(f"V{y}" if index else f"L{coordinate(left + at * across)} {y}")
        pieces.append(f"H{coordinate(left + to * across)}")
    return "".join(pieces)
