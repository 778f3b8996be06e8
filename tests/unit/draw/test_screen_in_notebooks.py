import sys
from types import ModuleType

import rich.console
from rich.text import Text

from simcluster.draw import render_text


def test_a_notebook_is_shown_nothing_beside_the_text(monkeypatch):
    """rich takes a capture for something to display where it sees a notebook."""
    shown = []
    display = ModuleType("IPython.display")
    display.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: True)
    assert render_text(Text("a screen")) == "a screen"
    assert not shown
