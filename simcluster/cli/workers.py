"""Work that several processes share, with its results in order."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def mapped(function: Callable[[Item], Result], items: Sequence[Item], jobs: int) -> Iterator[Result | None]:
    """What a function of a module gives for each item, in order, worked out by so many processes.

    One process, or one item, needs no other than this one. If a process dies, for want of memory or by
    somebody's hand, what was not finished is tried once more; what then dies again is None. An interrupt ends
    the processes at once.
    """
    if min(jobs, len(items)) <= 1:
        yield from map(function, items)
        return
    found: dict[int, Result] = {}
    told = 0
    for _ in range(2):
        left = [index for index in range(len(items)) if index not in found]
        with _Pool(min(jobs, len(left))) as pool:
            futures = pool.submitted(function, {index: items[index] for index in left})
            try:
                for index, future in futures.items():
                    found[index] = future.result()
                    while told in found:
                        yield found[told]
                        told += 1
            except BrokenProcessPool:
                found |= {index: each.result() for index, each in futures.items() if _is_done(each)}
        if len(found) == len(items):
            break
    yield from (found.get(index) for index in range(told, len(items)))


class _Pool:
    """Processes of our own that are gone when the block is left, whatever they were at."""

    def __init__(self, jobs: int) -> None:
        self._before = set(active_children())
        self._executor = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
        ours = set(active_children()) - self._before
        for process in ours:
            process.terminate()
        for process in ours:
            process.join()

    def submitted(
        self, function: Callable[[Item], Result], items: dict[int, Item]
    ) -> dict[int, Future[Result]]:
        """A future for every item. Processes begin here."""
        with _interrupts_later():
            return {index: self._executor.submit(function, item) for index, item in items.items()}


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """A block in which processes begin: they leave interrupts to this one, where they come behind it.

    A process that had been told half of what to do would end with a traceback.
    """
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    # Processes take over the mask. Other threads of this one may be interrupted all the same.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


def _is_done(future: Future[Result]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
