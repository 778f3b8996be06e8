"""A scenario put together from what a file says: model, stages, hosts, inference."""

from simcluster.foreign.assembly.host_updates import one_host, updates_there
from simcluster.foreign.assembly.model_families import settle
from simcluster.foreign.assembly.pipeline_stages import chunks_of
from simcluster.foreign.assembly.scenario_assembly import assemble

__all__ = ["assemble", "chunks_of", "one_host", "settle", "updates_there"]
