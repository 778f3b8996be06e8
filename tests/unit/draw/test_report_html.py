"""Reports for the terminal as HTML."""

from __future__ import annotations

from rich.text import Text

from simcluster.draw import Column, quantities, renderables_html, text_table


def test_tables_are_tables_and_styles_are_kept():
    table = text_table([Column("what"), *quantities("time")], [["a <b>", Text("1 s", "red")]], indent=2)
    shown = renderables_html(
        Text("Title", "bold"), "", Text.assemble(("late", "bold"), ": two\nlines"), table
    )
    assert '<span style="font-weight:600">Title</span>' in shown
    assert '<span style="font-weight:600">late</span>: two<br>lines' in shown
    assert shown.count("<th ") == shown.count("<td ") == 2, "the column of the indentation is left out"
    assert "a &lt;b&gt;" in shown and "text-align:right" in shown
    assert "color:#" in shown
