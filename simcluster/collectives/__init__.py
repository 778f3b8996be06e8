"""Collectives: algorithms as steps that are timed, load links and compute their operation."""

from simcluster.collectives.algorithm import Algorithm, all_algorithms
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
from simcluster.collectives.group_site import Site
from simcluster.collectives.operation import Operation
from simcluster.collectives.run_on_arrays import Outcome, perform
from simcluster.collectives.spec import CollectivesSpec
from simcluster.collectives.step import Cut, Routine, Step
from simcluster.collectives.traffic.group_loads import loads
from simcluster.collectives.traffic.link_loads import Load
from simcluster.collectives.traffic.unequal_parts import Parts, PartsByGroup

__all__ = [
    "AUTO",
    "AUTOMATIC",
    "PHASES",
    "Algorithm",
    "Choice",
    "CollectivesSpec",
    "Cut",
    "Load",
    "Operation",
    "Outcome",
    "Override",
    "Parts",
    "PartsByGroup",
    "Phase",
    "Routine",
    "Row",
    "Selection",
    "Site",
    "Step",
    "Wanted",
    "all_algorithms",
    "benchmark",
    "collective_time",
    "copy_loads",
    "copy_time",
    "loads",
    "perform",
    "refused_name",
    "routine",
    "site",
    "work_loads",
    "work_time",
]
