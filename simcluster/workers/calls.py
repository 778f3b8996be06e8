"""One function called for many items on an executor, with every call's outcome as a value."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from typing import Generic, TypeVar

from simcluster.deferred_dataclass import dataclass

Item = TypeVar("Item")
Result = TypeVar("Result")

_TRIES = 2


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that gave no result, and why."""

    error: BaseException

    @property
    def is_worker_lost(self) -> bool:
        """Whether the worker died each time that the call was tried, for want of memory or by a signal."""
        return isinstance(self.error, BrokenExecutor)


def run_all(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    executor: Executor,
    *,
    in_flight: int | None = None,
) -> Iterator[tuple[int, Result | Failure]]:
    """(index, result or Failure) of the function of every item, in the order in which calls end.

    Items are taken from ``items`` one by one, as soon as there is room for another call: ``in_flight`` are
    handed to the executor at a time, by default what it has workers for. So what chooses the next item may
    look at all results so far, and an iterator that has none for now is asked again after the next result.
    Whoever stops iterating, or is interrupted, leaves no call waiting; the executor stays the caller's.

    An error of the function is a Failure. A call whose worker dies is tried once more; if that worker dies
    too, it is a Failure. Raises BrokenExecutor if the executor takes no more calls or has dropped one: then
    nothing further can come of it.
    """
    source, again = enumerate(items), deque[_Call[Item]]()
    running: dict[Future[Result], _Call[Item]] = {}
    try:
        while True:
            while len(running) < (in_flight or num_workers_of(executor)):
                if again:
                    call = again.popleft()
                elif (entry := next(source, None)) is not None:
                    call = _Call(*entry)
                else:
                    break
                running[executor.submit(function, call.item)] = call
            if not running:
                return
            done = wait(running, return_when=FIRST_COMPLETED).done
            future = min(done, key=lambda ended: running[ended].index)
            call = running.pop(future)
            outcome = _outcome(future)
            if isinstance(outcome, Failure) and outcome.is_worker_lost and call.tries < _TRIES:
                again.append(_Call(call.index, call.item, call.tries + 1))
            else:
                yield call.index, outcome
    finally:
        for future in running:
            future.cancel()


def in_order(outcomes: Iterable[tuple[int, Result]]) -> Iterator[Result]:
    """What ``run_all`` gives, in the order of the items."""
    early: dict[int, Result] = {}
    following = 0
    for index, outcome in outcomes:
        early[index] = outcome
        while following in early:
            yield early.pop(following)
            following += 1


def num_workers_of(executor: Executor) -> int:
    """How many calls an executor works on at a time: as it says itself, else the processors of this machine.

    Those of Python say it in an attribute that is not documented; one without it is no error.
    """
    for name in ("num_workers", "_max_workers"):
        number = getattr(executor, name, None)
        if isinstance(number, int) and number > 0:
            return number
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class _Call(Generic[Item]):
    """An item that is handed to the executor, for the how-manieth time."""

    index: int
    item: Item
    tries: int = 1


def _outcome(future: Future[Result]) -> Result | Failure:
    """The result of a call that has ended, or its failure."""
    try:
        error = future.exception()
    except CancelledError as cancelled:
        raise BrokenExecutor("it dropped a call; its scheduler or its workers may be gone") from cancelled
    return future.result() if error is None else Failure(error)
