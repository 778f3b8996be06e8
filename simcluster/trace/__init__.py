"""What a simulation records: tables of columns, documents, and the file that holds both."""

from simcluster.trace.lazy_recording import Asked
from simcluster.trace.recording import Recording
from simcluster.trace.run import WALL_TIME, Run
from simcluster.trace.table import Table, concatenated, joined

__all__ = ["WALL_TIME", "Asked", "Recording", "Run", "Table", "concatenated", "joined"]
