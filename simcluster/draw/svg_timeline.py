"""Timelines as SVG: a row per stage, a block per action."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simcluster import units
from simcluster.deferred_dataclass import dataclass
from simcluster.draw.svg import (
    CHARACTER,
    ON_FILL,
    Canvas,
    coordinate,
    text_fits,
    ticks,
    time_label,
    time_ticks,
)
from simcluster.draw.tone import Tone

ROW, GAP, TOP, BOTTOM, FONT_SIZE = 20, 4, 6, 22, 10

FEW = 800
"""Up to this many blocks each is an element of its own, with a title under the pointer; beyond, all blocks
of a tone are one path, so that a notebook stays small."""


@dataclass(frozen=True, slots=True)
class TimelineBlock:
    """Something that lasts from ``start`` to ``end`` (seconds)."""

    start: float
    end: float
    label: str
    tone: Tone


def timeline_svg(
    rows: Sequence[tuple[str, Sequence[TimelineBlock]]],
    *,
    end: float | None = None,
    width: float = 960,
    time_text: Callable[[float], str] | None = None,
) -> str:
    """The SVG of labelled rows of blocks on one axis of time, 0 to ``end`` (default: the last block's).

    ``time_text`` writes times, if they are no seconds.
    """
    seconds, tick_text = time_text or units.seconds, time_text or time_label
    last = max((block.end for _, blocks in rows for block in blocks), default=0.0)
    end = end or last or 1.0
    margin = 12 + FONT_SIZE * CHARACTER * max((len(label) for label, _ in rows), default=0)
    height = TOP + len(rows) * (ROW + GAP) + BOTTOM
    canvas = Canvas(width, height, f"timeline of {len(rows)} rows over {seconds(end)}")
    scale = (width - margin - 8) / end
    for tick in (ticks if time_text else time_ticks)(end, 8):
        x = margin + tick * scale
        canvas.line(x, TOP, x, height - BOTTOM + 3)
        canvas.text(x, height - 7, tick_text(tick), anchor="middle", size=FONT_SIZE, faint=True)
    few = sum(len(blocks) for _, blocks in rows) <= FEW
    merged: dict[Tone, list[str]] = {}
    for index, (label, blocks) in enumerate(rows):
        y = TOP + index * (ROW + GAP)
        canvas.text(margin - 8, y + ROW / 2 + 3.5, label, anchor="end", size=FONT_SIZE)
        for block in blocks:
            x, length = margin + block.start * scale, (block.end - block.start) * scale
            # A hair of ground between neighbours keeps blocks of one tone apart.
            drawn = max(length - 0.6, 0.3)
            if few:
                lasts, begins = seconds(block.end - block.start), seconds(block.start)
                title = f"{block.label}: {lasts}, from {begins}"
                canvas.rect(x, y, drawn, ROW, block.tone.colour, title)
            else:
                merged.setdefault(block.tone, []).append(
                    f"M{coordinate(x)} {y}h{coordinate(drawn)}v{ROW}h{coordinate(-drawn)}z"
                )
            if few and text_fits(block.label, length - 3, FONT_SIZE):
                middle = x + length / 2
                canvas.text(
                    middle, y + ROW / 2 + 3.5, block.label, anchor="middle", size=FONT_SIZE, colour=ON_FILL
                )
    for tone, pieces in merged.items():
        canvas.path("".join(pieces), tone.colour)
    return canvas.render()
