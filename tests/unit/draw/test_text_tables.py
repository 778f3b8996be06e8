import pytest
from rich.text import Text

from simcluster.draw import Column, quantities, render_text, text_table


def lines(columns, rows, *, width=80, indent=0):
    return render_text(text_table(columns, rows, indent=indent), width=width).split("\n")


def test_quantities_are_flush_right_with_their_units():
    found = lines(
        ["", Column(quantity=True), ""], [["a", "7.96 s", "x"], ["b", "872 ms", "y"], ["c", "-", "z"]]
    )
    assert found == ["a  7.96 s  x", "b  872 ms  y", "c       -  z"]


def test_styled_cells_are_aligned_like_plain_ones():
    found = lines([Column(quantity=True)], [[Text("1 s", "red")], ["872 ms"]])
    assert found == ["   1 s", "872 ms"]


def test_titles_are_shown_only_if_there_are_any():
    assert lines(["", ""], [["a", "b"]]) == ["a  b"]
    assert lines(["x", Column("time", quantity=True)], [["a", "5 s"]]) == ["x  time", "a   5 s"]


def test_no_rows_and_no_columns():
    assert lines([], []) == [""]
    assert lines(["x"], []) == ["x"]


def test_indent():
    assert lines(["", ""], [["a", "b"]], indent=4) == ["    a  b"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_that_may_wrap_is_never_cut(width):
    words = [f"word{index}" for index in range(60)]
    found = lines(["", Column(wraps=True)], [["name", " ".join(words)]], width=width)
    assert all(len(line) <= width for line in found)
    assert " ".join(found).split() == ["name", *words]


def test_markup_in_cells_is_text():
    assert lines([""], [["[bold]x[/bold] :smile:"]]) == ["[bold]x[/bold] :smile:"]


@pytest.mark.parametrize("width", [20, 40, 60])
def test_no_figure_is_cut_and_no_column_dropped_on_a_narrow_screen(width):
    columns = [Column("operator", wraps=True), "over", *quantities("time", "of step", "under way")]
    text = lines(
        columns, [["layer.forward attention.out", "data", "295.25 us", "33.25 %", "1.25 ms"]], width=width
    )
    assert all(cell in text[1] for cell in ("layer.forward", "data", "295.25 us", "33.25 %", "1.25 ms"))
    assert "..." not in "".join(text) and "…" not in "".join(text)


def test_lines_that_wrap_keep_their_indent():
    cell = "parallel.mesh={pipeline: 8, data: 8}\n  parallel.schedule={kind: 1f1b, stages: auto}"
    columns, row = [Column(wraps=True), "why"], [cell, "more stages, and fewer ranks"]
    found = [line.rstrip() for line in lines(columns, [row], width=58)][1:]
    assert found[0].split("  ")[0] == "parallel.mesh={pipeline: 8,"
    assert found[1] == "data: 8}"
    assert found[2:4] == ["  parallel.schedule={kind:", "  1f1b, stages: auto}"]
