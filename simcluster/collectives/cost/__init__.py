"""How long collectives take and which algorithm and protocol a library chooses; copies and kernels on hosts;
the bandwidth benchmark.
"""

from simcluster.collectives.cost.algorithm_cost import (
    Choice,
    Phase,
    collective_time,
    refused_name,
    routine,
    site,
)
from simcluster.collectives.cost.algorithm_selection import AUTO, AUTOMATIC, Override, Selection, Wanted
from simcluster.collectives.cost.bandwidth_benchmark import Row, benchmark
from simcluster.collectives.cost.host_copies import copy_loads, copy_time
from simcluster.collectives.cost.host_kernels import PHASES, work_loads, work_time

__all__ = [
    "AUTO",
    "AUTOMATIC",
    "PHASES",
    "Choice",
    "Override",
    "Phase",
    "Row",
    "Selection",
    "Wanted",
    "benchmark",
    "collective_time",
    "copy_loads",
    "copy_time",
    "refused_name",
    "routine",
    "site",
    "work_loads",
    "work_time",
]
