"""Mixed precision: number formats, casts of weights, fp8 matmuls."""

from simcluster.plan.precision.formats import Numerics, groups_of, states_of, update_of
from simcluster.plan.precision.fp8_casts import cast_once_per_step, cast_per_use, repeat_casts
from simcluster.plan.precision.fp8_matmuls import quantise
from simcluster.plan.precision.weight_casts import cast_chosen_weights, cast_weights, recast_in_backward

__all__ = [
    "Numerics",
    "cast_chosen_weights",
    "cast_once_per_step",
    "cast_per_use",
    "cast_weights",
    "groups_of",
    "quantise",
    "recast_in_backward",
    "repeat_casts",
    "states_of",
    "update_of",
]
