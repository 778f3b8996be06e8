"""Collectives: algorithms as steps that are timed, load links and compute their operation."""

from simcluster.collectives.algorithm import Algorithm, all_algorithms
from simcluster.collectives.benchmark import Row, benchmark
from simcluster.collectives.copies import copy_loads, copy_time
from simcluster.collectives.cost import Choice, Phase, collective_time, refused_name, routine, site
from simcluster.collectives.grouped import loads
from simcluster.collectives.host_work import PHASES, work_loads, work_time
from simcluster.collectives.loads import Load
from simcluster.collectives.operation import Operation
from simcluster.collectives.parts import Parts, PartsByGroup
from simcluster.collectives.perform import Outcome, perform
from simcluster.collectives.selection import AUTO, AUTOMATIC, Override, Selection, Wanted
from simcluster.collectives.site import Site
from simcluster.collectives.spec import CollectivesSpec
from simcluster.collectives.step import Cut, Routine, Step

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
