"""Stacked horizontal bars as SVG, each against a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simcluster.deferred_dataclass import dataclass
from simcluster.draw.svg import CHARACTER, ON_FILL, Canvas, text_fits
from simcluster.draw.tone import BarPart, sum_of_parts

ROW, GAP, EDGE, FONT_SIZE = 20, 5, 4, 10.5

LIMIT = "#d9534f"


@dataclass(frozen=True, slots=True)
class Stack:
    """One bar: its label to the left, its parts, a note to the right, and the value it must not pass."""

    label: str
    parts: Sequence[BarPart]
    note: str = ""
    limit: float | None = None


def stacked_bars_svg(
    rows: Sequence[Stack], reading: Callable[[float], str], *, width: float = 960, whole: float | None = None
) -> str:
    """The SVG of the bars; ``reading`` writes a value with its unit.

    All are to one scale; with ``whole`` each is to its own, a full bar being so many times its limit.
    """
    character = FONT_SIZE * CHARACTER
    left, right = (
        12 + character * longest if longest else 0.0
        for longest in (
            max((len(row.label) for row in rows), default=0),
            max((len(row.note) for row in rows), default=0),
        )
    )
    height = 2 * EDGE + len(rows) * (ROW + GAP) - GAP
    canvas = Canvas(width, height, f"{len(rows)} stacked bars")
    largest = max((max(sum_of_parts(row.parts), row.limit or 0.0) for row in rows), default=0.0) or 1.0
    for index, row in enumerate(rows):
        full = largest if whole is None or not row.limit else whole * row.limit
        scale = (width - left - right) / full
        y = EDGE + index * (ROW + GAP)
        base = y + ROW / 2 + 4
        canvas.text(left - 8, base, row.label, anchor="end", size=FONT_SIZE)
        if row.limit is not None:
            canvas.rect(left, y, row.limit * scale, ROW, "#80808030", f"limit {reading(row.limit)}")
        x = left
        for part in row.parts:
            length = part.value * scale
            if part.value <= 0:
                continue
            canvas.rect(x, y, length, ROW, part.tone.colour, f"{part.name}: {reading(part.value)}")
            inside = next(
                (text for text in _labels(part, reading) if text_fits(text, length - 4, FONT_SIZE)), ""
            )
            if inside:
                middle = x + length / 2
                canvas.text(middle, base, inside, anchor="middle", size=FONT_SIZE, colour=ON_FILL)
            x += length
        over = row.limit is not None and sum_of_parts(row.parts) > row.limit
        if over and row.limit is not None:
            at = left + row.limit * scale
            canvas.line(at, y - 3, at, y + ROW + 3, strong=True, colour=LIMIT)
        canvas.text(
            width - right + 8, base, row.note, size=FONT_SIZE, colour=LIMIT if over else "currentColor"
        )
    return canvas.render()


def _labels(part: BarPart, reading: Callable[[float], str]) -> tuple[str, ...]:
    """What may stand in a part, from most to least."""
    return f"{part.name} {reading(part.value)}", part.name, reading(part.value)
