"""What a simulation records: tables of columns, documents, and the file that holds both."""

from simcluster.trace.atomic_files import atomic, write_file
from simcluster.trace.lazy_recording import Asked
from simcluster.trace.recording import COMPUTE, Recording
from simcluster.trace.run import WALL_TIME, Run, moves
from simcluster.trace.slowed_kernels import stretch
from simcluster.trace.table import Table, concatenated, joined

__all__ = [
    "COMPUTE",
    "WALL_TIME",
    "Asked",
    "Recording",
    "Run",
    "Table",
    "atomic",
    "concatenated",
    "joined",
    "moves",
    "stretch",
    "write_file",
]
