"""A scenario put together from what a file says: model, stages, hosts, inference."""

from simcluster.foreign.assembly.host_updates import known_host, state_host_updates
from simcluster.foreign.assembly.model_families import adapt_to_family
from simcluster.foreign.assembly.pipeline_stages import counted_ends, virtual_chunks
from simcluster.foreign.assembly.scenario_assembly import assemble_scenario

__all__ = [
    "adapt_to_family",
    "assemble_scenario",
    "counted_ends",
    "known_host",
    "state_host_updates",
    "virtual_chunks",
]
