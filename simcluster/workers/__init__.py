"""Many calls on the workers of an executor: processes of this machine, of many machines, or any executor.

for index, outcome in run_all(function, items, executor):    # in the order in which they are done
    ...                                                      # a result, or a Failure
"""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.workers.calls import Failure, in_order, num_workers_of, run_all
    from simcluster.workers.dask_executor import LOCAL, DaskExecutor
    from simcluster.workers.executor_choice import borrowed_executor, chosen_executor
    from simcluster.workers.inline import InlineExecutor
    from simcluster.workers.journal import Journal
    from simcluster.workers.local_workers import local_executor, usable_cpus
    from simcluster.workers.ordered_map import parallel_map
    from simcluster.workers.processes import WorkerProcesses
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "calls": "Failure in_order num_workers_of run_all",
            "executor_choice": "borrowed_executor chosen_executor",
            "dask_executor": "LOCAL DaskExecutor",
            "inline": "InlineExecutor",
            "journal": "Journal",
            "local_workers": "local_executor usable_cpus",
            "ordered_map": "parallel_map",
            "processes": "WorkerProcesses",
        },
    )

__all__ = [
    "LOCAL",
    "DaskExecutor",
    "Failure",
    "InlineExecutor",
    "Journal",
    "WorkerProcesses",
    "borrowed_executor",
    "chosen_executor",
    "in_order",
    "local_executor",
    "num_workers_of",
    "parallel_map",
    "run_all",
    "usable_cpus",
]
