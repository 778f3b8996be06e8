"""Tones: a colour for the screen, one for SVG, and a fill that tells it apart where there is no colour."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Tone:
    """How one kind of thing is drawn everywhere.

    ``style`` is one of the sixteen terminal colours, so that the user's theme applies; ``colour`` is a CSS
    colour of middle lightness, readable on white and on black; ``glyph`` is one character wide.
    """

    style: str
    colour: str
    glyph: str

    def fill(self, colour: bool) -> str:
        """The character that fills a bar: where colour tells tones apart, the same for all."""
        return SOLID if colour else self.glyph

    def shaded(self, number: int) -> Tone:
        """The tone of the chunk of a stage with this number: lighter or darker than those beside it."""
        shade = _SHADES[number % len(_SHADES)]
        towards = 255 if shade > 0 else 0
        parts = (int(self.colour[at : at + 2], 16) for at in (1, 3, 5))
        mixed = (round(part + (towards - part) * abs(shade)) for part in parts)
        return replace(self, colour="#" + "".join(f"{part:02x}" for part in mixed))


_SHADES = (0.0, 0.32, -0.26, 0.16, -0.14, 0.44, -0.36, 0.24)
"""How much lighter (or darker) tones are for chunks, one after the other."""

SOLID = "█"

BLUE = Tone("bright_blue", "#5b9bd5", "█")
ORANGE = Tone("yellow", "#f0a04b", "▓")
GREEN = Tone("green", "#62b37d", "▒")
PURPLE = Tone("magenta", "#ae8cd9", "░")
TEAL = Tone("cyan", "#4db6bd", "#")
RED = Tone("red", "#e27d76", "=")
YELLOW = Tone("bright_yellow", "#d8bd4a", "+")
PINK = Tone("bright_magenta", "#dd8fb9", "x")
OLIVE = Tone("bright_green", "#a3ad4f", "*")
GREY = Tone("bright_black", "#a3a8ae", ":")

EMPTY = Tone("bright_black", "#808890", "·")
"""What is there but not used: free memory, time without work."""


_ASCII = str.maketrans(
    {"█": "@", "▓": "%", "▒": "o", "░": "~", "·": ".", "┃": "|", "─": "-", "│": "|", "…": ".", "→": ">"}
)
"""Characters of drawings, and others that stay different where there is nothing but ASCII."""


def with_ascii_glyphs(text: str) -> str:
    """The text with glyphs of ASCII, which are as wide, in place of those of bars and grids."""
    return text.translate(_ASCII)


@dataclass(frozen=True, slots=True)
class BarPart:
    """One part of a stacked bar: its name, its value in the unit of the bar, its tone."""

    name: str
    value: float
    tone: Tone


def sum_of_parts(parts: Iterable[BarPart]) -> float:
    """The sum of the parts."""
    return sum(part.value for part in parts)
