"""A Program in time: SimPy streams, rendezvous, and the tables that follow from their times."""

from simcluster.engine.choices import Choices
from simcluster.engine.engine import Method, Progress, run
from simcluster.engine.fabric import Background, CapacityChange, Fabric, Links, Phase, Transfer
from simcluster.engine.loaded import fabric
from simcluster.engine.memory import memory
from simcluster.engine.record import record
from simcluster.engine.spans import instruction_times
from simcluster.engine.timing import ClassTiming, Timing
from simcluster.engine.vectors import Vectors
from simcluster.engine.waits import waits

__all__ = [
    "Background",
    "CapacityChange",
    "Choices",
    "ClassTiming",
    "Fabric",
    "Links",
    "Method",
    "Phase",
    "Progress",
    "Timing",
    "Transfer",
    "Vectors",
    "fabric",
    "instruction_times",
    "memory",
    "record",
    "run",
    "waits",
]
