"""Collectives: algorithms as steps that are timed and, with the same steps, computed."""

from simcluster.collectives.algorithm import Algorithm, all_algorithms
from simcluster.collectives.cost import AUTO, Choice, collective_time
from simcluster.collectives.operation import Operation
from simcluster.collectives.step import Step
from simcluster.collectives.wire import Wire

__all__ = ["AUTO", "Algorithm", "Choice", "Operation", "Step", "Wire", "all_algorithms", "collective_time"]
