"""The page's section on parameter servers."""

from __future__ import annotations

from html import escape

from simcluster.draw import Column, Markup, quantities
from simcluster.report.content import SERVER_FIGURES, server_lines, server_rows
from simcluster.report.html.elements import data_table, page_section
from simcluster.trace import RunDocument


def server_section(documents: RunDocument) -> Markup:
    """How updates are made, what workers wait for, and a row per server; nothing without servers."""
    lines = list(server_lines(documents["summary"]))
    if not lines:
        return Markup("")
    text = "".join(f"<p>{escape(line)}</p>" for line in lines)
    columns = [Column("server"), *quantities(*SERVER_FIGURES)]
    table = data_table(columns, server_rows(documents["summary"]))
    return page_section("servers", "Parameter servers", "what workers push and pull, in a step", text, table)
