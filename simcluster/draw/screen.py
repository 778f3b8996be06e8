"""From renderables to text: with or without colour, as wide as asked."""

from __future__ import annotations

import io
import re
import shutil

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

from simcluster.printable import printable_text

NARROWEST, WIDEST = 60, 120
"""Screens outside these are drawn as if they were inside."""

_TRAILING = re.compile(r"(?<! ) ++((?:\x1b\[[\d;]*m)*+) *+$")
"""Blanks at the end of a line, perhaps before the code that ends a style; blanks within it are read once."""


def screen_width(width: int | None = None) -> int:
    """The width to draw for, in columns: as asked, else that of the terminal, else 100."""
    if width is None:
        width = shutil.get_terminal_size((100, 24)).columns
    return max(NARROWEST, min(WIDEST, width))


def render_text(*renderables: RenderableType, width: int | None = None, colour: bool = False) -> str:
    """The text of rich renderables one below the other, in ``width`` columns; only tables may be wider.

    With ``colour`` it holds ANSI codes of the sixteen colours; without, none. What is drawn holds no others:
    those in names are spelled out. Lines have no trailing blanks, and the text no trailing newline.
    """
    console = Console(
        file=io.StringIO(),
        width=screen_width(width),
        force_terminal=colour,
        force_jupyter=False,  # there rich would display what is captured, too
        color_system="standard" if colour else None,
        no_color=not colour,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    with console.capture() as capture:
        for renderable in renderables:
            console.print(_Printable(renderable), crop=False)
    return "\n".join(_TRAILING.sub(r"\1", line) for line in capture.get().split("\n")).rstrip("\n")


class _Printable:
    """A renderable without characters that a terminal would obey."""

    def __init__(self, inside: RenderableType) -> None:
        self._inside = inside

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._inside, options):
            yield segment if segment.control else Segment(printable_text(segment.text), segment.style)
