"""torchtitan's job configurations."""

from simcluster.foreign.torchtitan import kernels, pipeline
from simcluster.foreign.torchtitan.model_flavors import read_model_flavor, read_model_name, state_flavor

__all__ = ["kernels", "pipeline", "read_model_flavor", "read_model_name", "state_flavor"]
