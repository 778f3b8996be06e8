"""What a step is made of: the chain of entries that decides when it ends, and what could be later."""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.analysis.critical_path.entry_graph import may_have_critical_path
    from simcluster.analysis.critical_path.path_document import critical_path_document
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "entry_graph": "may_have_critical_path",
            "path_document": "critical_path_document",
        },
    )

__all__ = ["critical_path_document", "may_have_critical_path"]
