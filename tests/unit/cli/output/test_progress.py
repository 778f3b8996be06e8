from __future__ import annotations

import io
import threading
import types

import pytest

from simcluster.cli.output import progress as module
from simcluster.cli.output.progress import progress_line, progress_text
from simcluster.engine import Progress


class Terminal(io.StringIO):
    """Text that says it is a terminal, and when it was written to."""

    def __init__(self):
        super().__init__()
        self.used = threading.Event()

    def isatty(self):
        return True

    def write(self, text):
        self.used.set()
        return super().write(text)


@pytest.fixture
def terminal(monkeypatch):
    found = Terminal()
    monkeypatch.setattr(module, "sys", types.SimpleNamespace(stderr=found))
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    monkeypatch.setattr(module, "PAUSE", 0.001)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    return found


def progress(done, total, now=3.21):
    made = Progress(total)
    made.update(done, round(now * 1e9))
    return made


def test_what_is_said():
    assert progress_text("x", Progress(), 1.6, 0.0) == "x: planning, 2 s"
    assert (
        progress_text("x", progress(430, 1000), 12.0, 118e3)
        == "x: 43 %, 3.21 s simulated, 118 k events/s, 12 s"
    )
    assert progress_text("x", progress(1000, 1000), 12.0, 1.0) == "x: recording 1.00 k events, 12 s"


def test_a_line_is_written_and_cleared(terminal):
    with progress_line("a long name " * 20) as found:
        assert isinstance(found, Progress)
        assert terminal.used.wait(10)
    lines = terminal.getvalue().split(module._CLEAR)
    assert lines[0] == lines[-1] == ""
    assert lines[1].startswith("a long name")
    assert all(len(line) < 60 for line in lines)
    assert not any(isinstance(thread, module._Watcher) for thread in threading.enumerate())


def test_it_is_cleared_after_an_error_too(terminal):
    with pytest.raises(KeyboardInterrupt), progress_line("x"):
        assert terminal.used.wait(10)
        raise KeyboardInterrupt
    assert terminal.getvalue().endswith(module._CLEAR)


def test_short_runs_say_nothing(terminal, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 1000.0)
    with progress_line("x"):
        pass
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("reason", ["quiet", "dumb", "no terminal"])
def test_nothing_where_it_is_not_wanted(terminal, monkeypatch, reason):
    if reason == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    if reason == "no terminal":
        monkeypatch.setattr(terminal, "isatty", lambda: False)
    before = threading.active_count()
    with progress_line("x", wanted=reason != "quiet"):
        assert threading.active_count() == before
    assert terminal.getvalue() == ""
