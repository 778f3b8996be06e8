"""Boxes in rows, and lines between them: a graph in tiers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from simcluster.deferred_dataclass import dataclass
from simcluster.draw.markup import Markup
from simcluster.draw.svg import CHARACTER, Canvas, text_fits
from simcluster.draw.tone import Tone

_USED = ((0x5B, 0x9B, 0xD5), (0x62, 0xB3, 0x7D), (0xF0, 0xA0, 0x4B), (0xE5, 0x70, 0x45), (0xD9, 0x3F, 0x3F))
"""The colours of lines that are used never, a quarter of the time, half of it, three quarters, always. Green
stands between blue and orange, because halfway between these two is the grey of lines that are not used."""

_BOX, _GAP, _ROOM, _NAME, _SIZE = 24.0, 6.0, 44.0, 96.0, 10.0


@dataclass(frozen=True, slots=True)
class Box:
    """One box: the key that connections name it by, its label, its colour.

    ``short`` stands in a box that is too narrow for ``label``; ``title`` is its tooltip.
    """

    key: Hashable
    label: str
    tone: Tone
    title: str = ""
    short: str = ""


@dataclass(frozen=True, slots=True)
class BoxRow:
    """Boxes side by side, with the row's name at the left; ``more`` says what is left out."""

    name: str
    boxes: Sequence[Box]
    more: str = ""


@dataclass(frozen=True, slots=True)
class Connection:
    """A line between two boxes, ``weight`` pixels wide; ``use``, from 0 to 1, gives it its colour."""

    one: Hashable
    other: Hashable
    title: str
    weight: float = 1.0
    strong: bool = False
    use: float | None = None


def tier_diagram_svg(
    rows: Sequence[BoxRow], lines: Iterable[Connection], label: str, width: float = 960
) -> Markup:
    """The rows from top to bottom, as SVG. Lines to boxes that are not drawn are left out."""
    height = len(rows) * _BOX + (len(rows) - 1) * _ROOM + 2 * _GAP
    canvas = Canvas(width, height, label)
    middle: dict[Hashable, tuple[float, float]] = {}
    half: dict[Hashable, float] = {}
    for index, row in enumerate(rows):
        slot = (width - _NAME) / max(1, len(row.boxes))
        for place, box in enumerate(row.boxes):
            middle[box.key] = _NAME + (place + 0.5) * slot, _GAP + index * (_BOX + _ROOM) + _BOX / 2
            half[box.key] = min(slot - _GAP, max(40.0, len(box.label) * _SIZE * CHARACTER + 14)) / 2
    for line in lines:
        if line.one in middle and line.other in middle:
            _draw(canvas, line, middle[line.one], middle[line.other])
    for row in rows:
        for box in row.boxes:
            (x, y), wide = middle[box.key], half[box.key]
            canvas.rect(x - wide, y - _BOX / 2, 2 * wide, _BOX, box.tone.colour, box.title or box.label)
            text = box.label if text_fits(box.label, 2 * wide, _SIZE) else box.short
            if text and text_fits(text, 2 * wide, _SIZE):
                canvas.text(x, y + 3.5, text, anchor="middle", size=_SIZE, colour="#16181b")
    for index, row in enumerate(rows):
        y = _GAP + index * (_BOX + _ROOM) + _BOX / 2
        canvas.text(0, y + (0 if row.more else 4), row.name, size=11)
        if row.more:
            canvas.text(0, y + 12, row.more, size=9, faint=True)
    return Markup(canvas.render())


def _draw(canvas: Canvas, line: Connection, start: tuple[float, float], end: tuple[float, float]) -> None:
    """A straight line, or a bow over a row between boxes of the same row."""
    (x1, y1), (x2, y2) = start, end
    bow = 0.0 if y1 != y2 else -(_BOX / 2 + 6 + min(_ROOM / 2, abs(x2 - x1) / 12))
    pull = (x1 + x2) / 2, (y1 + y2) / 2 + 2 * bow
    colour = "" if line.use is None or line.strong else use_colour(line.use)
    canvas.curve((x1, y1), pull, (x2, y2), line.weight, line.strong, line.title, colour)


def use_colour(use: float) -> str:
    """The colour of a line that is in use for a share of the time, from blue over green and orange to
    red; none if for nothing.
    """
    if use <= 0:
        return ""
    place = min(1.0, use) * (len(_USED) - 1)
    low = min(int(place), len(_USED) - 2)
    parts = (round(a + (b - a) * (place - low)) for a, b in zip(_USED[low], _USED[low + 1], strict=True))
    return "#" + "".join(f"{part:02x}" for part in parts)
