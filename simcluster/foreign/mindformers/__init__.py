"""MindFormers' configuration."""

from simcluster.foreign.mindformers.host_offload import offload_meaning, state_mindformers_offload
from simcluster.foreign.mindformers.model_section import MODEL, SECTION, state_model
from simcluster.foreign.mindformers.recompute import recompute_meaning, state_mindformers_recompute

__all__ = [
    "MODEL",
    "SECTION",
    "offload_meaning",
    "recompute_meaning",
    "state_mindformers_offload",
    "state_mindformers_recompute",
    "state_model",
]
