"""A Program in time: SimPy streams, rendezvous, and the tables that follow from their times."""

from simcluster.engine.engine import Method, Progress, run
from simcluster.engine.memory import memory
from simcluster.engine.spans import instruction_times, spans
from simcluster.engine.timing import ClassTiming, Timing
from simcluster.engine.waits import waits

__all__ = [
    "ClassTiming",
    "Method",
    "Progress",
    "Timing",
    "instruction_times",
    "memory",
    "run",
    "spans",
    "waits",
]
