"""Markdown as a terminal shows it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from io import StringIO
from pathlib import PurePosixPath
from typing import Any, ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.theme import Theme

from simcluster.cli.output.terminal import has_colour
from simcluster.guide import SUFFIX, topics

WIDEST = 110
"""Columns: longer lines are hard to read."""
STYLES = Theme(
    {"markdown.code": "cyan", "markdown.h1": "bold underline", "markdown.h2": "bold", "markdown.h3": "bold"}
)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


class _Indented(CodeBlock):
    """Code in the colours of the terminal, indented, without a background of its own."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        language = "bash" if self.lexer_name == "console" and "$ " not in code else self.lexer_name
        colours = Syntax(code, language, theme="ansi_dark", background_color="default", word_wrap=True)
        yield Padding(colours, (0, 0, 0, 2))


class _Left(Heading):
    """A heading at the left margin, whatever its level."""

    LEVEL_ALIGN: ClassVar[dict[str, Any]] = {}


class _Page(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Left,
        "fence": _Indented,
        "code_block": _Indented,
    }


def is_drawn() -> bool:
    """Whether standard output is a terminal with the characters that drawings need."""
    return (sys.stdout.isatty() or has_colour()) and (sys.stdout.encoding or "").lower().startswith("utf")


def markdown_screen(text: str) -> str:
    """The text drawn for the width of the terminal; links to files become their names."""
    width = min(WIDEST, shutil.get_terminal_size((100, 24)).columns)
    page = StringIO()
    plain = not has_colour()
    console = Console(file=page, width=width, force_terminal=True, no_color=plain, theme=STYLES)
    console.print(_Page(_without_links(text), hyperlinks=False))
    lines = page.getvalue().split("\n")
    return "\n".join(line.rstrip() for line in lines).rstrip("\n")


def _without_links(text: str) -> str:
    """A text that says where its links lead, except in tables, whose columns are narrow."""

    def named(link: re.Match[str]) -> str:
        line = text.rfind("\n", 0, link.start()) + 1
        return _named(link[1], link[2], in_table=text.startswith("|", line))

    return _LINK.sub(named, text)


def _named(text: str, target: str, *, in_table: bool) -> str:
    if target.startswith("http"):
        return f"{text} ({target})"
    path = PurePosixPath(target)
    name = path.stem.lower()
    if path.suffix == SUFFIX and any(name == topic.name for topic in topics()):
        command = f"`simcluster guide {name}`"
        return command if text == name else f"{text} ({command})"
    parts = [part for part in path.parts if part != os.pardir]
    return text if in_table else f"{text} (`{'/'.join(parts)}`)"
