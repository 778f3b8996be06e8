"""A Program in time: SimPy streams, rendezvous, and the tables that follow from their times."""

from simcluster.engine.beside import Beside
from simcluster.engine.choices import Choices
from simcluster.engine.engine import run, run_together
from simcluster.engine.fabric import Background, CapacityChange, Fabric, Links, Phase, Transfer
from simcluster.engine.lanes import Lane, kernels
from simcluster.engine.linked import LinkedClass
from simcluster.engine.loaded import fabric, fabrics
from simcluster.engine.lodger import Lodger, Progress, no_collection
from simcluster.engine.rank_classes import classes_on_links, classes_together
from simcluster.engine.spec import RunSpec
from simcluster.engine.sweep import Swept
from simcluster.engine.swept import Method
from simcluster.engine.timed import NOTHING, TimedCode
from simcluster.engine.timing import ClassTiming, Timing
from simcluster.engine.vectors import Vectors

__all__ = [
    "NOTHING",
    "Background",
    "Beside",
    "CapacityChange",
    "Choices",
    "ClassTiming",
    "Fabric",
    "Lane",
    "LinkedClass",
    "Links",
    "Lodger",
    "Method",
    "Phase",
    "Progress",
    "RunSpec",
    "Swept",
    "TimedCode",
    "Timing",
    "Transfer",
    "Vectors",
    "classes_on_links",
    "classes_together",
    "fabric",
    "fabrics",
    "kernels",
    "no_collection",
    "run",
    "run_together",
]
