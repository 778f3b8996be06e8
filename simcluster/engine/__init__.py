"""A Program in time: SimPy streams, rendezvous, and the tables that follow from their times."""

from simcluster.engine.beside import Beside
from simcluster.engine.class_program import ClassProgram
from simcluster.engine.engine import run, run_together
from simcluster.engine.fabric import Background, CapacityChange, Fabric, FlowPhase, Links, Transfer
from simcluster.engine.implementation import Implementation
from simcluster.engine.lanes import Lane, kernels
from simcluster.engine.rank_classes import classes_on_links, classes_together
from simcluster.engine.spec import RunSpec
from simcluster.engine.sweep import Swept
from simcluster.engine.timed import NOTHING, TimedCode
from simcluster.engine.timing import ClassTiming, Timing
from simcluster.engine.vectors import Vectors
from simcluster.engine.workload import Progress, Workload, no_collection

__all__ = [
    "NOTHING",
    "Background",
    "Beside",
    "CapacityChange",
    "ClassProgram",
    "ClassTiming",
    "Fabric",
    "FlowPhase",
    "Implementation",
    "Lane",
    "Links",
    "Progress",
    "RunSpec",
    "Swept",
    "TimedCode",
    "Timing",
    "Transfer",
    "Vectors",
    "Workload",
    "classes_on_links",
    "classes_together",
    "kernels",
    "no_collection",
    "run",
    "run_together",
]
