"""Positions in a text: file, line, column and excerpt, for error messages."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate

from simcluster.deferred_dataclass import dataclass

WIDTH = 100


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a text: its name, line and column (from 1), and the line itself.

    ``line`` is 0 for text without lines of its own, such as ``--set key=value``: its name says it all.
    """

    name: str
    line: int = 0
    column: int = 0
    text: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.line}:{self.column}" if self.line else self.name

    def excerpt(self) -> str:
        """The source line under its number with a caret below the place, or nothing without a line.

        Text outside the printed width is left out; an ellipsis says so.
        """
        if not self.line or not self.text.strip():
            return ""
        first = max(0, self.column - 1 - WIDTH // 2) if len(self.text) > WIDTH else 0
        shown = self.text[first : first + WIDTH]
        before = self.text[first : self.column - 1]
        if first:
            shown, before = "…" + shown, "…" + before
        if first + WIDTH < len(self.text):
            shown += "…"
        number = str(self.line)
        blank = "".join(_as_wide(character) for character in before)
        shown = "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in shown)
        return f"    {number} | {shown}\n    {' ' * len(number)} | {blank}^"


@dataclass(frozen=True)
class SourceText:
    """A text with the name to show for it; ``inline`` text comes from a command line, not from a file."""

    name: str
    text: str
    inline: bool = False

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines without their ends; only a line feed ends a line, as in YAML 1.2."""
        return tuple(self.text.split("\n"))

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate((len(line) + 1 for line in self.lines), initial=0))

    def mark(self, index: int) -> Mark:
        """The place of the character at ``index``, counted from 0."""
        if self.inline:
            return Mark(self.name)
        index = min(max(index, 0), len(self.text))
        line = bisect_right(self._starts, index)
        return Mark(self.name, line, index - self._starts[line - 1] + 1, self.lines[line - 1])


def _as_wide(character: str) -> str:
    """Blank text that takes as much room on a terminal as the character."""
    if character == "\t":
        return "\t"
    return "  " if unicodedata.east_asian_width(character) in "WF" else " "
