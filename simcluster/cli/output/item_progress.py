"""A progress bar for work in many equal pieces."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from simcluster.printable import printable_text


@contextmanager
def progress_bar(
    name: str, total: int, done: int = 0, *, wanted: bool = True
) -> Iterator[Callable[[int], None]]:
    """What is to be called with how many pieces are done; shown on standard error if that is a terminal."""
    if not wanted or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None
        return
    console = Console(stderr=True, force_terminal=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as progress:
        task = progress.add_task(printable_text(" ".join(name.split())), total=total, completed=done)
        yield lambda number: progress.update(task, completed=number)


@contextmanager
def counted_progress(name: str) -> Iterator[Callable[[int, int], None]]:
    """What is to be called with how many pieces are done and how many there are; the bar is shown from the
    first call on.
    """
    with ExitStack() as stack:
        bars: list[Callable[[int], None]] = []

        def watch(done: int, total: int) -> None:
            if not bars:
                bars.append(stack.enter_context(progress_bar(name, total)))
            bars[0](done)

        yield watch
