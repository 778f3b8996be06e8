"""Activation recomputation (checkpointing): whole layers, chosen operators, and saved activations kept in
parts.
"""

from simcluster.plan.recompute.distributed_saved_activations import is_sliced, slice_inputs
from simcluster.plan.recompute.layer_recompute import recompute, recomputed_layers
from simcluster.plan.recompute.recompute_phase import recompute_ahead
from simcluster.plan.recompute.selective_recompute import SUFFIX, recompute_operators, selected

__all__ = [
    "SUFFIX",
    "is_sliced",
    "recompute",
    "recompute_ahead",
    "recompute_operators",
    "recomputed_layers",
    "selected",
    "slice_inputs",
]
