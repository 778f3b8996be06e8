"""What a step is made of: the chain of entries that decides when it ends, and what could be later."""

from simcluster.analysis.critical_path.critical_entries import Cause, CriticalEntries
from simcluster.analysis.critical_path.entry_graph import EntryGraph, may_have_critical_path
from simcluster.analysis.critical_path.path_document import critical_path_document
from simcluster.analysis.critical_path.path_parts import PartKind, PathParts
from simcluster.analysis.critical_path.slack import entry_slacks

__all__ = [
    "Cause",
    "CriticalEntries",
    "EntryGraph",
    "PartKind",
    "PathParts",
    "critical_path_document",
    "entry_slacks",
    "may_have_critical_path",
]
