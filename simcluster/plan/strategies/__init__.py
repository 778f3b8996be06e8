"""Sharding strategies: what mesh axes are for, and how each operator is split over them."""

from simcluster.plan.strategies.assignment import (
    DEFAULT,
    Strategies,
    assign_strategies,
    axes_with_several_ranks,
    remainder_problem,
    split_problem,
)
from simcluster.plan.strategies.mesh_axes import (
    CONTEXT,
    EXPERTS,
    check_mesh,
    roles_of,
    unknown_axes,
    unused_axes,
    unused_roles,
)
from simcluster.plan.strategies.mesh_subaxes import split_mesh_axes
from simcluster.plan.strategies.operand_splits import (
    StrategyMismatch,
    Tokens,
    device_matrix_of,
    tensor_splits,
)
from simcluster.plan.strategies.vocabulary_divisor import vocabulary_divisor_of

__all__ = [
    "CONTEXT",
    "DEFAULT",
    "EXPERTS",
    "Strategies",
    "StrategyMismatch",
    "Tokens",
    "assign_strategies",
    "axes_with_several_ranks",
    "check_mesh",
    "device_matrix_of",
    "remainder_problem",
    "roles_of",
    "split_mesh_axes",
    "split_problem",
    "tensor_splits",
    "unknown_axes",
    "unused_axes",
    "unused_roles",
    "vocabulary_divisor_of",
]
