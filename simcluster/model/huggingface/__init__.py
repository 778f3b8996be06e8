"""Hugging Face's config.json as a model."""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.model.huggingface.config import dimensions, remarks
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "config": "dimensions remarks",
        },
    )

__all__ = ["dimensions", "remarks"]
