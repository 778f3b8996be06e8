"""Interrupts (Ctrl-C) reach the process that hands out work, not those that do it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """A block in which processes and threads begin that no interrupt ever reaches.

    A process takes over the mask of the thread that begins it, and a thread that of another, for good. What
    Python itself begins before the first process of multiprocessing resets the mask, so it is begun here. An
    interrupt of this process comes behind the block.
    """
    resource_tracker.ensure_running()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
