"""MindFormers' configuration."""

from simcluster.foreign.mindformers.host_offload import offload, offload_meaning
from simcluster.foreign.mindformers.model_section import MODEL, SECTION, model
from simcluster.foreign.mindformers.recompute import recomputation, recompute_meaning

__all__ = ["MODEL", "SECTION", "model", "offload", "offload_meaning", "recomputation", "recompute_meaning"]
