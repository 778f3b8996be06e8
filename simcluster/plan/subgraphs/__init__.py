"""Subgraphs that run as one graph launch each: their operators, layouts at their boundaries, and their
backward.
"""

from simcluster.plan.subgraphs.backward_subgraphs import assign_backward_to_subgraphs
from simcluster.plan.subgraphs.boundary_constraints import (
    BoundaryConstraint,
    BoundaryConstraints,
    boundary_dims,
    boundary_sub_axes,
    find_boundary_constraints,
)
from simcluster.plan.subgraphs.subgraph import (
    BlockSubgraphs,
    assign_subgraphs,
    describe_subgraphs,
    matches_operator_or_module,
    subgraph_refusal,
)

__all__ = [
    "BlockSubgraphs",
    "BoundaryConstraint",
    "BoundaryConstraints",
    "assign_backward_to_subgraphs",
    "assign_subgraphs",
    "boundary_dims",
    "boundary_sub_axes",
    "describe_subgraphs",
    "find_boundary_constraints",
    "matches_operator_or_module",
    "subgraph_refusal",
]
