"""Tones: a colour for the screen, one for SVG, and a fill that tells it apart where there is no colour."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


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
