"""Collectives: algorithms as steps that are timed, load links and compute their operation."""

from typing import TYPE_CHECKING

from simcluster.collectives.algorithm import Algorithm, all_algorithms
from simcluster.collectives.cost import (
    AUTO,
    AUTOMATIC,
    PHASES,
    PROCESSOR,
    AlgorithmChoice,
    BenchmarkRow,
    CollectiveRequest,
    LoadPhase,
    Override,
    Selection,
    algorithm_routine,
    benchmark,
    collective_time,
    copy_loads,
    copy_time,
    group_site_of,
    refused_name,
    work_loads,
    work_time,
)
from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.operation import Operation
from simcluster.collectives.spec import CollectivesSpec
from simcluster.collectives.step import AlgorithmStep, ChunkLayout, GroupExchange, Routine
from simcluster.collectives.traffic import (
    MOST_RANKS,
    Imbalance,
    ImbalanceLaw,
    PhaseLoad,
    UnequalParts,
    UnequalPartsByGroup,
    group_loads_of,
)
from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.collectives.run_on_arrays import CollectiveResult, run_on_rank_arrays
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "run_on_arrays": "CollectiveResult run_on_rank_arrays",
        },
    )

__all__ = [
    "AUTO",
    "AUTOMATIC",
    "MOST_RANKS",
    "PHASES",
    "PROCESSOR",
    "Algorithm",
    "AlgorithmChoice",
    "AlgorithmStep",
    "BenchmarkRow",
    "ChunkLayout",
    "CollectiveRequest",
    "CollectiveResult",
    "CollectivesSpec",
    "GroupExchange",
    "GroupSite",
    "Imbalance",
    "ImbalanceLaw",
    "LoadPhase",
    "Operation",
    "Override",
    "PhaseLoad",
    "Routine",
    "Selection",
    "UnequalParts",
    "UnequalPartsByGroup",
    "algorithm_routine",
    "all_algorithms",
    "benchmark",
    "collective_time",
    "copy_loads",
    "copy_time",
    "group_loads_of",
    "group_site_of",
    "refused_name",
    "run_on_rank_arrays",
    "work_loads",
    "work_time",
]
