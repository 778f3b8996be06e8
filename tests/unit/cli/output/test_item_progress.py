"""The progress bar: on terminals only, and gone when the work is done."""

from __future__ import annotations

import io

import pytest

from simcluster.cli.output.item_progress import progress_bar


class Screen(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


def shown(monkeypatch, *, terminal=True, wanted=True, term="xterm"):
    """What standard error was given while two of three pieces got done."""
    screen = Screen(terminal)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLUMNS", "100")
    with progress_bar("a\x1b[31m name\nof two", 3, 1, wanted=wanted) as watch:
        watch(2)
        watch(3)
    return screen.getvalue()


def test_a_bar_on_a_terminal(monkeypatch):
    text = shown(monkeypatch)
    assert "3/3" in text
    assert "name of two" in text
    assert "\x1b[31m name" not in text
    assert text.endswith("\x1b[2K")


@pytest.mark.parametrize("options", [{"terminal": False}, {"wanted": False}, {"term": "dumb"}])
@pytest.mark.parametrize("colour", ["", "1"])
def test_nothing_elsewhere(monkeypatch, options, colour):
    monkeypatch.setenv("FORCE_COLOR", colour)
    assert shown(monkeypatch, **options) == ""
