import pytest
from rich.text import Text

from simcluster.draw import render_text, screen_width
from simcluster.draw.screen import NARROWEST, WIDEST


def test_no_codes_without_colour():
    assert render_text(Text("x", "bold red")) == "x"
    assert render_text(Text("x", "bold red"), colour=True) == "\x1b[1;31mx\x1b[0m"


def test_colour_follows_the_argument_and_nothing_else(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" in render_text(Text("x", "red"), colour=True)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in render_text(Text("x", "red"))


def test_neither_trailing_blanks_nor_trailing_lines():
    assert render_text(Text("a   "), Text("b"), "") == "a\nb"


@pytest.mark.parametrize(("asked", "given"), [(10, NARROWEST), (80, 80), (100, 100), (500, WIDEST)])
def test_width_is_kept_within_bounds(asked, given):
    assert screen_width(asked) == given


def test_width_follows_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    assert screen_width() == 90
