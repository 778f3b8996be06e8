"""Work that several processes share, with its results in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from simcluster.workers.calls import Failure, in_order, run_all
from simcluster.workers.processes import WorkerProcesses

Item = TypeVar("Item")
Result = TypeVar("Result")


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
    with WorkerProcesses(num_workers) as executor:
        for outcome in in_order(run_all(function, items, executor)):
            if not isinstance(outcome, Failure):
                yield outcome
            elif outcome.is_worker_lost:
                yield None
            else:
                raise outcome.error
