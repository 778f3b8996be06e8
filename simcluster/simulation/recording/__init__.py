"""The tables of a Run, from the times of the engine; of very many classes only those that are looked at."""

from simcluster.simulation.recording.lazy_trace import LazyTrace
from simcluster.simulation.recording.recorder import record_run

__all__ = ["LazyTrace", "record_run"]
