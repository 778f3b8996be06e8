"""How long collectives take and which algorithm and protocol a library chooses; copies and kernels on hosts;
the bandwidth benchmark.
"""

from simcluster.collectives.cost.algorithm_cost import (
    AlgorithmChoice,
    LoadPhase,
    algorithm_routine,
    collective_time,
    group_site_of,
    refused_name,
)
from simcluster.collectives.cost.algorithm_selection import (
    AUTO,
    AUTOMATIC,
    CollectiveRequest,
    Override,
    Selection,
)
from simcluster.collectives.cost.bandwidth_benchmark import BenchmarkRow, benchmark
from simcluster.collectives.cost.host_copies import copy_loads, copy_time
from simcluster.collectives.cost.host_kernels import PHASES, PROCESSOR, work_loads, work_time

__all__ = [
    "AUTO",
    "AUTOMATIC",
    "PHASES",
    "PROCESSOR",
    "AlgorithmChoice",
    "BenchmarkRow",
    "CollectiveRequest",
    "LoadPhase",
    "Override",
    "Selection",
    "algorithm_routine",
    "benchmark",
    "collective_time",
    "copy_loads",
    "copy_time",
    "group_site_of",
    "refused_name",
    "work_loads",
    "work_time",
]
