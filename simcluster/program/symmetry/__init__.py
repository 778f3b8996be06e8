"""Which ranks behave alike: the coarsest equitable partition of ranks, groups and links."""

from simcluster.program.symmetry.class_splits import find_class_splits
from simcluster.program.symmetry.coloured_graph import GroupLoads
from simcluster.program.symmetry.rank_classes import (
    TRANSFERS,
    Axes,
    ClassFlows,
    ClassGroup,
    LinkLoading,
    PlacedGroups,
    RankClasses,
    TenantLoad,
    partition_ranks,
    partition_tenants,
    pipeline_pairs,
)

__all__ = [
    "TRANSFERS",
    "Axes",
    "ClassFlows",
    "ClassGroup",
    "GroupLoads",
    "LinkLoading",
    "PlacedGroups",
    "RankClasses",
    "TenantLoad",
    "find_class_splits",
    "partition_ranks",
    "partition_tenants",
    "pipeline_pairs",
]
