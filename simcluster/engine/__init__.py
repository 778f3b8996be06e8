"""A Program in time: SimPy streams, rendezvous, and the tables that follow from their times."""

from simcluster.engine.choices import Choices
from simcluster.engine.engine import run, run_together
from simcluster.engine.fabric import Background, CapacityChange, Fabric, Links, Phase, Transfer
from simcluster.engine.loaded import fabric, fabrics
from simcluster.engine.lodger import Lodger, Progress
from simcluster.engine.swept import Method
from simcluster.engine.timing import ClassTiming, Timing
from simcluster.engine.vectors import Vectors

__all__ = [
    "Background",
    "CapacityChange",
    "Choices",
    "ClassTiming",
    "Fabric",
    "Links",
    "Lodger",
    "Method",
    "Phase",
    "Progress",
    "Timing",
    "Transfer",
    "Vectors",
    "fabric",
    "fabrics",
    "run",
    "run_together",
]
