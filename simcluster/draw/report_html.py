"""Reports that are written for the terminal, as HTML: the same tables and lines."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from simcluster.draw.markup import Markup, html_table, preformatted
from simcluster.draw.screen import render_text
from simcluster.draw.svg import FONT
from simcluster.draw.table_column import Column
from simcluster.draw.tone import GREEN, RED, YELLOW

_COLOURS = {"red": RED.colour, "green": GREEN.colour, "yellow": YELLOW.colour}
_CONSOLE = Console(force_jupyter=False)


def renderables_html(*renderables: RenderableType) -> Markup:
    """One ``div`` of what ``render_text`` shows: tables as tables, text with its styles."""
    parts = "".join(map(_part, renderables))
    return Markup(f'<div style="font-size:13px;line-height:1.45;overflow-x:auto;{FONT}">{parts}</div>')


def _part(renderable: RenderableType) -> str:
    if isinstance(renderable, (str, Text)):
        text = _styled(renderable)
        return f"<div>{text}</div>" if text else '<div style="height:.8em"></div>'
    if isinstance(renderable, Table):
        return _table(renderable)
    if isinstance(renderable, Padding):
        return f'<div style="padding-left:1.2em">{_part(renderable.renderable)}</div>'
    return preformatted(render_text(renderable))


def _table(table: Table) -> str:
    # The column of an indentation has nothing in it.
    columns = [list(column.cells) for column in table.columns]
    kept = [number for number, cells in enumerate(columns) if any(map(_plain, cells))]
    heads = [
        Column(_plain(table.columns[number].header), quantity=table.columns[number].justify == "right")
        for number in kept
    ]
    shown = [[Markup(_styled(cell)) for cell in columns[number]] for number in kept]
    return html_table(heads, zip(*shown, strict=True))


def _plain(cell: RenderableType) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def _styled(text: RenderableType) -> str:
    return "".join(_spans(text)) if isinstance(text, Text) else _lines(str(text))


def _spans(text: Text) -> Iterator[str]:
    """Its pieces of one style each."""
    whole = _CONSOLE.get_style(text.style)
    for piece, own, _ in text.render(_CONSOLE):
        style = own or whole
        looks = ["font-weight:600"] * bool(style.bold) + ["opacity:.7"] * bool(style.dim)
        if style.color is not None and style.color.name in _COLOURS:
            looks.append(f"color:{_COLOURS[style.color.name]}")
        shown = _lines(piece)
        yield f'<span style="{";".join(looks)}">{shown}</span>' if looks else shown


def _lines(text: str) -> str:
    return escape(text).replace("\n", "<br>")
