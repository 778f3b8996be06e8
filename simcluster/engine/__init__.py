"""A Program in time: SimPy streams, rendezvous, and the tables that follow from their times."""

from simcluster.engine.engine import ClassTiming, Progress, Timing, run
from simcluster.engine.memory import memory
from simcluster.engine.record import record
from simcluster.engine.spans import instruction_times
from simcluster.engine.waits import waits

__all__ = ["ClassTiming", "Progress", "Timing", "instruction_times", "memory", "record", "run", "waits"]
