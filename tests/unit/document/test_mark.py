from hypothesis import given
from hypothesis import strategies as st

from simcluster.document.mark import Mark, SourceText


def test_a_place_names_file_line_and_column():
    source = SourceText("demo.yaml", "a: 1\nbc: 2\n")
    assert str(source.mark(0)) == "demo.yaml:1:1"
    assert str(source.mark(9)) == "demo.yaml:2:5"
    assert source.mark(9).excerpt() == "    2 | bc: 2\n      |     ^"


def test_inline_text_is_named_only():
    mark = SourceText("--set a=1", "1", inline=True).mark(0)
    assert str(mark) == "--set a=1"
    assert mark.excerpt() == ""


def test_the_caret_stands_below_wide_characters_and_tabs():
    number, caret = Mark("f", 3, 5, "\t训练: x").excerpt().split("\n")
    assert number == "    3 | \t训练: x"
    assert caret == "      | \t     ^"


def test_a_long_line_is_cut_around_the_place():
    for column in (1, 60, 200, 399):
        shown, caret = (
            Mark("f", 1, column, "x" * (column - 1) + "Y" + "x" * (400 - column)).excerpt().split("\n")
        )
        assert len(shown) < 115
        assert shown[caret.index("^")] == "Y"


def test_control_characters_are_not_printed():
    assert "\x1b" not in Mark("f", 1, 1, "a: \x1b[31m").excerpt()


@given(st.text("ab\n", max_size=30), st.integers(0, 40))
def test_places_count_from_one(text, index):
    mark = SourceText("f", text).mark(index)
    lines = text.split("\n")
    assert sum(len(line) + 1 for line in lines[: mark.line - 1]) + mark.column - 1 == min(index, len(text))
