"""Hugging Face's config.json as a model."""

from simcluster.model.huggingface.config import dimensions, remarks

__all__ = ["dimensions", "remarks"]
