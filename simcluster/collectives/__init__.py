"""Collectives: algorithms as steps that are timed, load links and compute their operation."""

from simcluster.collectives.algorithm import Algorithm, all_algorithms
from simcluster.collectives.cost import (
    AUTO,
    AUTOMATIC,
    PHASES,
    Choice,
    Override,
    Phase,
    Row,
    Selection,
    Wanted,
    benchmark,
    collective_time,
    copy_loads,
    copy_time,
    refused_name,
    routine,
    site,
    work_loads,
    work_time,
)
from simcluster.collectives.group_site import Site
from simcluster.collectives.operation import Operation
from simcluster.collectives.run_on_arrays import Outcome, perform
from simcluster.collectives.spec import CollectivesSpec
from simcluster.collectives.step import Cut, Routine, Step
from simcluster.collectives.traffic import MOST_RANKS, Imbalance, Law, Load, Parts, PartsByGroup, loads

__all__ = [
    "AUTO",
    "AUTOMATIC",
    "MOST_RANKS",
    "PHASES",
    "Algorithm",
    "Choice",
    "CollectivesSpec",
    "Cut",
    "Imbalance",
    "Law",
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
