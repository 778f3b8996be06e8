"""A progress line on the terminal for long simulations."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from simcluster import units
from simcluster.engine import Progress
from simcluster.printable import printable_text

PATIENCE = 1.0
"""Seconds before the first line: what ends sooner needs none."""

PAUSE = 0.2
"""Seconds between lines, at least."""

_SHARE = 0.005
"""Part of the time that may go into looking: counting the entries of many streams is not free."""

_CLEAR = "\r\033[2K"


@contextmanager
def progress_line(name: str, *, doing: str = "planning", wanted: bool = True) -> Iterator[Progress]:
    """A Progress for the engine, shown while the block runs if standard error is a terminal.

    ``doing`` says what is done while no engine runs.
    """
    progress = Progress()
    if not wanted or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield progress
        return
    watcher = _Watcher(name, doing, progress)
    watcher.start()
    try:
        yield progress
    finally:
        watcher.stop()


class _Watcher(threading.Thread):
    """Looks at a Progress from beside the engine and never touches it."""

    def __init__(self, label: str, doing: str, progress: Progress) -> None:
        super().__init__(daemon=True)
        self.label, self.doing, self.progress = " ".join(label.split()), doing, progress
        self.began = time.monotonic()
        self.over = threading.Event()

    def run(self) -> None:
        """Writes the line until the end, or until the terminal is gone."""
        with suppress(OSError):
            self._watch()

    def _watch(self) -> None:
        pause, shown, last, counted = PATIENCE, False, self.began, 0
        while not self.over.wait(pause):
            before, now, done = time.thread_time(), time.monotonic(), self.progress.done
            rate = (done - counted) / (now - last)
            text = printable_text(
                progress_text(self.label, self.progress, now - self.began, rate, self.doing)
            )
            last, counted = now, done
            sys.stderr.write(_CLEAR + text[: shutil.get_terminal_size().columns - 1])
            sys.stderr.flush()
            # Seldom enough not to slow what is watched.
            pause, shown = max(PAUSE, (time.thread_time() - before) / _SHARE), True
        if shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def stop(self) -> None:
        """Clears the line."""
        self.over.set()
        self.join()


def progress_text(name: str, progress: Progress, elapsed: float, rate: float, doing: str = "planning") -> str:
    """``quickstart: 43 %, 3.21 s simulated, 118 k events/s``, or what is done before and after the engine."""
    done, total = progress.done, progress.total
    if not total or progress.doing:
        return f"{name}: {progress.doing or doing}, {elapsed:.0f} s"
    if done >= total:
        return f"{name}: recording {units.count(total)} events, {elapsed:.0f} s"
    share, simulated = f"{100 * done / total:.0f} %", units.seconds(progress.now)
    return f"{name}: {share}, {simulated} simulated, {units.count(rate)} events/s, {elapsed:.0f} s"
