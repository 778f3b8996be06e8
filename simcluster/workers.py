"""Work that several processes share."""

from __future__ import annotations

import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from multiprocessing import active_children, get_context
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_TRIES = 2


def parallel_map(
    function: Callable[[Item], Result], items: Sequence[Item], jobs: int
) -> Iterator[Result | None]:
    """What a function of a module gives for each item, in order, worked out by so many processes.

    One process, or one item, needs no other than this one. The item of a process that dies, for want of
    memory or by somebody's hand, is tried once more in a new one; where that dies too, its result is None. An
    interrupt ends the processes at once. An error of the function is raised where its result is due.
    """
    num_workers = min(jobs, len(items))
    if num_workers <= 1:
        yield from map(function, items)
        return
    with ExitStack() as stack:
        free = [stack.enter_context(_Worker(function)) for _ in range(num_workers)]
        left, died = deque(range(len(items))), Counter[int]()
        futures: dict[int, Future[Result] | None] = {}
        running: dict[Future[Result], tuple[int, _Worker[Item, Result]]] = {}
        num_given = 0
        while num_given < len(items):
            while left and free:
                index, worker = left.popleft(), free.pop()
                running[worker.submit(items[index])] = (index, worker)
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                index, worker = running.pop(future)
                free.append(worker)
                if not isinstance(future.exception(), BrokenProcessPool):
                    futures[index] = future
                    continue
                worker.replace()
                died[index] += 1
                if died[index] < _TRIES:
                    left.append(index)
                else:
                    futures[index] = None
            while num_given in futures:
                done = futures.pop(num_given)
                yield None if done is None else done.result()
                num_given += 1


class _Worker(Generic[Item, Result]):
    """A process of our own that does one thing at a time, and is gone when the block is left."""

    def __init__(self, function: Callable[[Item], Result]) -> None:
        self._function = function
        self._executor = _executor()
        self._processes: set[int] = set()

    def submit(self, item: Item) -> Future[Result]:
        """The function of an item. The process begins with the first, and anew where it died meanwhile."""
        before = {process.pid for process in active_children()}
        with _interrupts_later():
            try:
                future = self._executor.submit(self._function, item)
            except BrokenProcessPool:
                self.replace()
                future = self._executor.submit(self._function, item)
        self._processes |= {process.pid for process in active_children() if process.pid} - before
        return future

    def replace(self) -> None:
        """A new process in place of one that died."""
        self._end()
        self._executor = _executor()

    def __enter__(self) -> _Worker[Item, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
        ours = [child for child in active_children() if child.pid in self._processes]
        for process in ours:
            process.terminate()
        for process in ours:
            process.join()


def _executor() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """A block in which a process begins: an interrupt reaches this process alone, behind the block.

    A process that is interrupted while it begins would end with a traceback.
    """
    came: list[int] = []
    main = threading.current_thread() is threading.main_thread()  # the only one that handles signals
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number)) if main else None
    # Processes take over the mask: what is blocked while they begin is blocked for good.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if main:
            signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)
