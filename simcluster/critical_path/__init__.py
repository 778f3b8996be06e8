"""What a step is made of: the chain of entries that decides when it ends, and what could be later."""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.critical_path.path_document import critical_path_document
    from simcluster.critical_path.path_limit import may_have_critical_path
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "path_document": "critical_path_document",
            "path_limit": "may_have_critical_path",
        },
    )

__all__ = ["critical_path_document", "may_have_critical_path"]
