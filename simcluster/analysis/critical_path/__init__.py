"""What a step is made of: the chain of entries that decides when it ends, and what could be later."""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.analysis.critical_path.critical_entries import CriticalEntries, PathCause
    from simcluster.analysis.critical_path.entry_graph import EntryGraph, may_have_critical_path
    from simcluster.analysis.critical_path.path_document import critical_path_document
    from simcluster.analysis.critical_path.path_parts import PartKind, PathParts
    from simcluster.analysis.critical_path.slack import entry_slacks
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "critical_entries": "CriticalEntries PathCause",
            "entry_graph": "EntryGraph may_have_critical_path",
            "path_document": "critical_path_document",
            "path_parts": "PartKind PathParts",
            "slack": "entry_slacks",
        },
    )

__all__ = [
    "CriticalEntries",
    "EntryGraph",
    "PartKind",
    "PathCause",
    "PathParts",
    "critical_path_document",
    "entry_slacks",
    "may_have_critical_path",
]
