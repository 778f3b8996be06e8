"""torchtitan's job configurations."""

from simcluster.foreign.torchtitan import kernels, pipeline
from simcluster.foreign.torchtitan.model_flavors import read_model_flavor, read_model_name, state_flavor
from simcluster.foreign.torchtitan.python_registry import VARIABLE, read_registry

__all__ = [
    "VARIABLE",
    "kernels",
    "pipeline",
    "read_model_flavor",
    "read_model_name",
    "read_registry",
    "state_flavor",
]
