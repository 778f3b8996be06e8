"""Stacked horizontal bars in characters, and their legend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from rich.text import Text

from simcluster.draw.tone import EMPTY, BarPart

MARK = "┃"
"""Where a bar passes its limit."""


def cell_widths(values: Iterable[float], scale: float, width: int) -> list[int]:
    """How many of ``width`` characters each value takes where ``scale`` takes all of them.

    Ends are rounded, not lengths, so the sum is right to half a character.
    """
    ends = [min(width, int(value / scale * width + 0.5)) if scale > 0 else 0 for value in accumulate(values)]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def text_bar(
    parts: Sequence[BarPart], width: int, *, scale: float, limit: float | None = None, colour: bool = False
) -> Text:
    """A stacked bar of ``width`` characters; ``scale`` is the value of a full one.

    With a ``limit`` the room up to it is dotted, and a mark shows it where the bar goes beyond. Without
    ``colour`` every tone has a fill of its own.
    """
    text = Text(no_wrap=True)
    for part, count in zip(parts, cell_widths([part.value for part in parts], scale, width), strict=True):
        text.append(part.tone.fill(colour) * count, part.tone.style)
    if limit is None:
        return text
    room = cell_widths([limit], scale, width)[0]
    if len(text) < room:
        text.append(EMPTY.glyph * (room - len(text)), EMPTY.style)
    text.append(" " * (width - len(text)))
    if sum(part.value for part in parts) > limit:
        at = min(room, width - 1)
        text = Text.assemble(text[:at], (MARK, "bold red"), text[at + 1 :], no_wrap=True)
    return text


def text_legend(parts: Iterable[BarPart], width: int, *, colour: bool = False) -> Text:
    """``█ compute  ▓ communication``: which fill means what, in as many lines of ``width`` as it takes."""
    entries = [Text.assemble((part.tone.fill(colour), part.tone.style), f" {part.name}") for part in parts]
    return wrap_items(entries, width, "  ")


def wrap_items(items: Iterable[Text | str], width: int, separator: str = ", ") -> Text:
    """Items one after the other in lines of at most ``width`` characters, broken only between items."""
    lines: list[Text] = []
    for item in items:
        text = Text(item) if isinstance(item, str) else item
        if lines and len(lines[-1]) + len(separator) + len(text) <= width:
            lines[-1].append(separator).append(text)
        else:
            if lines:
                lines[-1].append(separator.rstrip())
            lines.append(text.copy())
    return Text("\n").join(lines)
