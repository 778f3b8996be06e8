"""Activation recomputation (checkpointing): whole layers, chosen operators, and distributed saved
activations.
"""

from simcluster.plan.recompute.distributed_saved_activations import distribute_saved_inputs, is_distributed
from simcluster.plan.recompute.layer_recompute import recompute, recomputed_layers
from simcluster.plan.recompute.recompute_phase import separate_recompute_phase
from simcluster.plan.recompute.selective_recompute import SUFFIX, recompute_in_block, recompute_operators

__all__ = [
    "SUFFIX",
    "distribute_saved_inputs",
    "is_distributed",
    "recompute",
    "recompute_in_block",
    "recompute_operators",
    "recomputed_layers",
    "separate_recompute_phase",
]
