"""Mixed precision: number formats, casts of weights, fp8 matmuls."""

from simcluster.plan.precision.formats import Formats, groups_of, states_of, update_of
from simcluster.plan.precision.fp8_casts import once_per_step, per_use, repeated
from simcluster.plan.precision.fp8_matmuls import quantise
from simcluster.plan.precision.weight_casts import cast_again, cast_weights

__all__ = [
    "Formats",
    "cast_again",
    "cast_weights",
    "groups_of",
    "once_per_step",
    "per_use",
    "quantise",
    "repeated",
    "states_of",
    "update_of",
]
