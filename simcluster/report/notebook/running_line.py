"""A line in a notebook that says how far a simulation is, while it runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from html import escape
from typing import Any, Protocol

from simcluster import units

PATIENCE = 1.0
"""Seconds before the line appears: what ends sooner needs none."""

PAUSE = 0.5
"""Seconds between two looks."""


class Counter(Protocol):
    """What is looked at: entries done and in all, and the simulated time in nanoseconds."""

    @property
    def done(self) -> int:
        """Entries that have ended."""

    @property
    def total(self) -> int:
        """Entries in all; 0 before they are known."""

    @property
    def now(self) -> float:
        """The simulated time that has been reached, in seconds."""


def progress_display(name: str, progress: Counter) -> AbstractContextManager[None]:
    """Shows a progress below the running cell of a notebook, and takes it away at the end.

    Elsewhere nothing happens: the command line has a line of its own.
    """
    return _shown(lambda: _line(name, progress))


@contextmanager
def message_display(name: str, doing: str = "planning") -> Iterator[Callable[[str], None]]:
    """The same for work in parts: gives what is to be called with what is done now, ``doing`` at first."""
    told = [doing]
    with _shown(lambda: f"{name}: {told[0]}"):
        yield lambda text: told.__setitem__(0, text)


@contextmanager
def counted_display(
    name: str, what: str, watch: Callable[[int], None] | None = None
) -> Iterator[Callable[[int], None]]:
    """The same for equal parts: gives what is to be called with how many are done of ``what``, such as ``40
    points``; it calls ``watch`` then.
    """
    with message_display(name) as tell:

        def count(number: int) -> None:
            tell(f"{number:,} of {what}")
            if watch is not None:
                watch(number)

        yield count


@contextmanager
def _shown(line: Callable[[], str]) -> Iterator[None]:
    """What ``line`` gives, below the running cell, while the block runs."""
    display = _display()
    if display is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        handle = None
        while not over.wait(PAUSE if handle else PATIENCE):
            now = line()
            text = {"text/html": f"<i>{escape(now)}</i>", "text/plain": now}
            if handle is None:
                handle = display(text, raw=True, display_id=True)
            else:
                handle.update(text, raw=True)
        if handle is not None:
            handle.update({"text/html": "", "text/plain": ""}, raw=True)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _display() -> Any:
    """IPython's ``display``, in a notebook; None elsewhere."""
    if "ipykernel" not in sys.modules:
        return None
    from IPython import get_ipython
    from IPython.display import display

    shell = get_ipython()
    return display if shell is not None and hasattr(shell, "kernel") else None


def _line(name: str, progress: Counter) -> str:
    """``quickstart: 43 %, 3.21 s simulated``, or that it is planned."""
    if not progress.total:
        return f"{name}: planning"
    share = f"{100 * progress.done / progress.total:.0f} %"
    return f"{name}: {share}, {units.seconds(progress.now)} simulated"
