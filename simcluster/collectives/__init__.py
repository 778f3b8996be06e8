"""Collectives: algorithms as steps that are timed and, with the same steps, computed."""

from simcluster.collectives.algorithm import Algorithm, all_algorithms
from simcluster.collectives.benchmark import Row, benchmark
from simcluster.collectives.cost import AUTO, Choice, collective_time, refused_name
from simcluster.collectives.operation import Operation
from simcluster.collectives.selection import AUTOMATIC, Selection
from simcluster.collectives.spec import CollectivesSpec
from simcluster.collectives.step import Step
from simcluster.collectives.wire import Wire

__all__ = [
    "AUTO",
    "AUTOMATIC",
    "Algorithm",
    "Choice",
    "CollectivesSpec",
    "Operation",
    "Row",
    "Selection",
    "Step",
    "Wire",
    "all_algorithms",
    "benchmark",
    "collective_time",
    "refused_name",
]
