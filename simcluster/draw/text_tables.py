"""Tables of text: quantities flush right with their units, long text in as many lines as it takes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from simcluster.deferred_dataclass import dataclass

Cell = str | Text


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its title, whether it holds quantities (``7.96 s``), whether its text may wrap."""

    title: str = ""
    quantity: bool = False
    wraps: bool = False
    style: str = ""


def quantities(*titles: str) -> list[Column]:
    """A column of quantities for each title."""
    return [Column(title, quantity=True) for title in titles]


def csv_text(*rows: Iterable[object]) -> str:
    """Rows as comma-separated values, one a line, without a newline behind the last."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().rstrip("\n")


def text_table(columns: Sequence[Column | str], rows: Iterable[Sequence[Cell]], *, indent: int = 0) -> Table:
    """A table without lines; titles are shown if any column has one.

    Quantities are flush right. Where the screen is too narrow, columns that may wrap do.
    """
    wanted = [Column(column) if isinstance(column, str) else column for column in columns]
    table = Table(
        box=None,
        show_header=any(column.title for column in wanted),
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="",
    )
    if indent:
        table.add_column(width=max(0, indent - 2))
    for index, column in enumerate(wanted):
        table.add_column(
            Text(column.title, "dim" if index else "bold"),
            justify="right" if column.quantity else "left",
            no_wrap=not column.wraps,
            overflow="fold" if column.wraps else "ellipsis",
            style=column.style,
        )
    for row in rows:
        table.add_row(*([""] if indent else []), *row)
    return table
