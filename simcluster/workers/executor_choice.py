"""The executor that a user chooses: processes of this machine, or the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from simcluster.errors import Problem, ScenarioError
from simcluster.workers.dask_executor import LOCAL, DaskExecutor
from simcluster.workers.local_workers import local_executor, usable_cpus


def chosen_executor(jobs: int | None, dask: str | None, num_items: int | None = None) -> Executor:
    """Processes of this machine, by default one for each processor; or the workers of a Dask cluster.

    Where it is known how many items there are, there are not more processes.

    Raises ScenarioError where there is no Dask scheduler, and for ``jobs`` beside one that is.
    """
    wanted = jobs or usable_cpus()
    if dask is not None:
        if jobs is not None and dask != LOCAL:
            raise ScenarioError(
                Problem(
                    f"the workers are those of {dask}, however many",
                    where=f"--jobs {jobs}",
                    hint="leave it out; it is for processes of this machine",
                )
            )
        return DaskExecutor.connect(dask, min(wanted, num_items or wanted))
    return local_executor(wanted, wanted if num_items is None else num_items)


@contextmanager
def borrowed_executor(
    executor: Executor | None, jobs: int | None, dask: str | None, num_items: int | None = None
) -> Iterator[Executor]:
    """``executor``, which is not shut down, or one of ``jobs`` processes or a Dask cluster, which is.

    Raises ScenarioError for both, and as ``chosen_executor`` does.
    """
    if executor is not None:
        if (dask, jobs) != (None, None):
            raise ScenarioError("it runs on an executor, or on 'jobs' processes or 'dask'; give one of them")
        yield executor
        return
    with chosen_executor(jobs, dask, num_items) as own:
        yield own
