"""A canvas that writes SVG: a few shapes, no styles from outside, right on light and on dark ground.

Text and lines take the colour of the text around (``currentColor``); fills are of middle lightness.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from html import escape

from simcluster import units
from simcluster.deferred_dataclass import dataclass

FONT = "font-family:system-ui,-apple-system,'Segoe UI',sans-serif"
ON_FILL = "#16181b"
"""The colour of text on a fill."""

CHARACTER = 0.56
"""Mean width of a character, as a share of the font size."""


def coordinate(value: float) -> str:
    """A coordinate, to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


@dataclass
class Canvas:
    """Shapes on a canvas of ``width`` by ``height`` pixels; ``label`` tells a screen reader what it shows."""

    width: float
    height: float
    label: str
    shapes: list[str] = field(default_factory=list)

    def rect(self, x: float, y: float, width: float, height: float, colour: str, title: str = "") -> None:
        """A filled rectangle; ``title`` is its tooltip."""
        inner = f"<title>{escape(title)}</title>" if title else ""
        box = (
            f'x="{coordinate(x)}" y="{coordinate(y)}" width="{coordinate(max(width, 0.1))}" '
            f'height="{coordinate(height)}" fill="{escape(colour)}"'
        )
        self.shapes.append(f"<rect {box}>{inner}</rect>" if inner else f"<rect {box}/>")

    def path(self, data: str, colour: str, title: str = "") -> None:
        """A filled path."""
        inner = f"<title>{escape(title)}</title>" if title else ""
        self.shapes.append(f'<path d="{data}" fill="{escape(colour)}">{inner}</path>')

    def line(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        *,
        strong: bool = False,
        colour: str = "currentColor",
    ) -> None:
        """A thin line; ``strong`` for limits, else a faint guide."""
        ends = f'x1="{coordinate(x1)}" y1="{coordinate(y1)}" x2="{coordinate(x2)}" y2="{coordinate(y2)}"'
        look = 'stroke-width="1.5"' if strong else 'stroke-width="1" stroke-opacity="0.18"'
        self.shapes.append(f'<line {ends} stroke="{escape(colour)}" {look}/>')

    def curve(
        self,
        start: tuple[float, float],
        pull: tuple[float, float],
        end: tuple[float, float],
        width: float,
        strong: bool,
        title: str,
        colour: str = "",
    ) -> None:
        """A line pulled towards a point; ``strong`` is one to be seen first, ``colour`` that of another."""
        points = [f"{coordinate(x)} {coordinate(y)}" for x, y in (start, pull, end)]
        opacity = "1" if strong or colour else "0.35"
        colour = "#e4572e" if strong else colour or "currentColor"
        look = f'fill="none" stroke="{colour}" stroke-opacity="{opacity}" stroke-width="{coordinate(width)}"'
        data = f"M{points[0]}Q{points[1]} {points[2]}"
        self.shapes.append(f'<path d="{data}" {look}><title>{escape(title)}</title></path>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: str = "start",
        size: float = 11,
        colour: str = "currentColor",
        faint: bool = False,
    ) -> None:
        """Text with its base line at ``y``; ``anchor`` is start, middle or end."""
        look = f'font-size="{coordinate(size)}" text-anchor="{anchor}" fill="{escape(colour)}"'
        faded = ' fill-opacity="0.7"' if faint else ""
        self.shapes.append(
            f'<text x="{coordinate(x)}" y="{coordinate(y)}" {look}{faded}>{escape(text)}</text>'
        )

    def render(self) -> str:
        """The SVG element: shrinks with the space it is given, never grows beyond its size."""
        return "".join(self._pieces())

    def _pieces(self) -> Iterator[str]:
        width, height = coordinate(self.width), coordinate(self.height)
        size = f'viewBox="0 0 {width} {height}" width="{width}"'
        look = f"max-width:100%;height:auto;display:block;{FONT}"
        yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} height="{coordinate(self.height)}" role="img" '
        yield f'aria-label="{escape(self.label)}" style="{look}">'
        yield from self.shapes
        yield "</svg>"


def text_fits(text: str, width: float, size: float) -> bool:
    """Whether a text of this font size is no wider than ``width`` pixels."""
    return len(text) * size * CHARACTER <= width


def time_label(value: float) -> str:
    """A time on an axis: ``2 s``, ``500 ms``, ``1.50 s``."""
    return units.seconds(value).replace(".00 ", " ").replace(".0 ", " ")


_LONG_STEPS = (1800.0, 3600.0, 7200.0, 10800.0, 21600.0, 43200.0, 86400.0, 172800.0, 432000.0, 864000.0)
"""Seconds between marks of an axis of hours or days."""


def ticks(end: float, count: int) -> list[float]:
    """About ``count`` round values from 0 to ``end``: steps of 1, 2 or 5 times a power of ten."""
    if end <= 0:
        return [0.0]
    rough = end / max(1, count)
    power = 10.0 ** int(f"{rough:e}".partition("e")[2])
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    return [index * step for index in range(int(end / step * (1 + 1e-9)) + 1)]


def time_ticks(end: float, count: int) -> list[float]:
    """About ``count`` round times from 0 to ``end`` seconds; on axes of hours or days, steps of such."""
    if end < count * 600:
        return ticks(end, count)
    step = next((step for step in _LONG_STEPS if step * count >= end), 0.0)
    return [index * step for index in range(int(end / step) + 1)] if step else ticks(end, count)
