"""The scenario's ``model:`` section."""

from simcluster.model.spec.graph_spec import entries, numbered
from simcluster.model.spec.model_spec import ModelSpec

__all__ = ["ModelSpec", "entries", "numbered"]
