"""A Program in time: when every instruction of every class of ranks starts and ends."""

from simcluster.engine.class_program import ClassProgram
from simcluster.engine.engine import run, run_together
from simcluster.engine.fabric import Background, CapacityChange, Fabric, FlowPhase, Links, Transfer
from simcluster.engine.implementation import Implementation
from simcluster.engine.linked_part import LinkedPart
from simcluster.engine.rank_classes import classes_on_links, classes_together
from simcluster.engine.spec import RunSpec
from simcluster.engine.timed import NOTHING, TimedCode
from simcluster.engine.timing import ClassTiming, GroupTiming, Timing
from simcluster.engine.vectors import Vectors
from simcluster.engine.workload import Progress, Workload, no_collection

__all__ = [
    "NOTHING",
    "Background",
    "CapacityChange",
    "ClassProgram",
    "ClassTiming",
    "Fabric",
    "FlowPhase",
    "GroupTiming",
    "Implementation",
    "LinkedPart",
    "Links",
    "Progress",
    "RunSpec",
    "TimedCode",
    "Timing",
    "Transfer",
    "Vectors",
    "Workload",
    "classes_on_links",
    "classes_together",
    "no_collection",
    "run",
    "run_together",
]
