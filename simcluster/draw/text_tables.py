"""Tables of text: quantities flush right with their units, long text in as many lines as it takes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from simcluster.draw.table_column import Column

Cell = str | Text

_LEAST_TEXT = 16
"""Cells to which text that may wrap is narrowed at most: what is narrower still cannot be read."""


def csv_text(*rows: Iterable[object]) -> str:
    """Rows as comma-separated values, one a line, without a newline behind the last."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().rstrip("\n")


def text_table(columns: Sequence[Column | str], rows: Iterable[Sequence[Cell]], *, indent: int = 0) -> Table:
    """A table without lines; titles are shown if any column has one.

    Quantities are flush right. Where the screen is too narrow, columns that may wrap do; what still does not
    fit makes the table wider than the screen, so that no figure is cut.
    """
    wanted = [Column(column) if isinstance(column, str) else column for column in columns]
    lines = list(rows)
    table = _WholeTable(
        box=None,
        show_header=any(column.title for column in wanted),
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="",
    )
    if indent:
        table.add_column(width=max(0, indent - 2), min_width=max(0, indent - 2))
    for index, column in enumerate(wanted):
        table.add_column(
            Text(column.title, "dim" if index else "bold"),
            justify="right" if column.quantity else "left",
            no_wrap=not column.wraps,
            overflow="fold",
            style=column.style,
            min_width=_least_width(column, [line[index] for line in lines]),
        )
    for line in lines:
        cells = (
            _IndentedText().append(cell) if column.wraps else cell
            for cell, column in zip(line, wanted, strict=True)
        )
        table.add_row(*([""] if indent else []), *cells)
    return table


class _IndentedText(Text):
    """Text that keeps the indent of each of its lines where that wraps."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for line in self.split(allow_blank=True):
            indent = len(line.plain) - len(line.plain.lstrip(" "))
            if line.cell_len <= options.max_width or not 0 < indent < options.max_width:
                yield from line.__rich_console__(console, options)
                continue
            for part in line[indent:].wrap(console, options.max_width - indent, overflow="fold"):
                yield from Text.assemble(" " * indent, part).__rich_console__(console, options)


class _WholeTable(Table):
    """A table that is never narrower than its columns must be: rich would cut or drop some."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        least = sum(column.min_width or 0 for column in self.columns) + 2 * (len(self.columns) - 1)
        yield from super().__rich_console__(console, options.update_width(max(options.max_width, least)))


def _least_width(column: Column, cells: Sequence[Cell]) -> int:
    widths = (Text(cell).cell_len if isinstance(cell, str) else cell.cell_len for cell in cells)
    width = max([Text(column.title).cell_len, *widths])
    return min(width, _LEAST_TEXT) if column.wraps else width
