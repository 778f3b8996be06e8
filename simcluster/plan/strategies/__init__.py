"""Sharding strategies: what the axes of the mesh are for, and how each operator is split over them."""

from simcluster.plan.strategies.assignment import DEFAULT, Strategies, assign, impossible, remainder, several
from simcluster.plan.strategies.mesh_axes import (
    CONTEXT,
    EXPERTS,
    check_mesh,
    roles_of,
    unknown_axes,
    unused_axes,
)
from simcluster.plan.strategies.mesh_subaxes import cut_axes
from simcluster.plan.strategies.operand_splits import Tokens, Unfit, matrix_of, tensor_of
from simcluster.plan.strategies.vocabulary_divisor import vocabulary_ways

__all__ = [
    "CONTEXT",
    "DEFAULT",
    "EXPERTS",
    "Strategies",
    "Tokens",
    "Unfit",
    "assign",
    "check_mesh",
    "cut_axes",
    "impossible",
    "matrix_of",
    "remainder",
    "roles_of",
    "several",
    "tensor_of",
    "unknown_axes",
    "unused_axes",
    "vocabulary_ways",
]
