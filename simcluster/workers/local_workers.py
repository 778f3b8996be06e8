"""The workers of this machine: how many it may have, and so many processes where one is not enough."""

from __future__ import annotations

import os
from concurrent.futures import Executor

from simcluster.workers.inline import InlineExecutor


def usable_cpus() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def local_executor(jobs: int, num_items: int) -> Executor:
    """So many processes, not more than there are items; where one is enough, none but this one."""
    num_workers = min(jobs, num_items)
    if num_workers <= 1:
        return InlineExecutor()
    from simcluster.workers.processes import WorkerProcesses

    return WorkerProcesses(num_workers)
