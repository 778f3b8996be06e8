"""What a simulation records: tables of columns, documents, and the file that holds both."""

from simcluster.trace.atomic_files import atomic_path, write_file
from simcluster.trace.documents import Documents
from simcluster.trace.lazy_recording import LazyRecording
from simcluster.trace.name_index import NameIndex, number_by_appearance
from simcluster.trace.recording import COMPUTE, Recording
from simcluster.trace.run import WALL_TIME, Run, RunDocument, moves_data
from simcluster.trace.table import Column, Table, concatenate_tables, join_tables

__all__ = [
    "COMPUTE",
    "WALL_TIME",
    "Column",
    "Documents",
    "LazyRecording",
    "NameIndex",
    "Recording",
    "Run",
    "RunDocument",
    "Table",
    "atomic_path",
    "concatenate_tables",
    "join_tables",
    "moves_data",
    "number_by_appearance",
    "write_file",
]
