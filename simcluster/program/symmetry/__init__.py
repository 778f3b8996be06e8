"""Which ranks behave alike: the coarsest equitable partition of ranks, groups and links."""

from simcluster.program.symmetry.coloured_graph import Ints, Loads
from simcluster.program.symmetry.rank_classes import (
    TRANSFERS,
    Axes,
    Classes,
    Flows,
    Group,
    Loading,
    Lodger,
    Placed,
    partition,
    partitions,
    pipeline_pairs,
)

__all__ = [
    "TRANSFERS",
    "Axes",
    "Classes",
    "Flows",
    "Group",
    "Ints",
    "Loading",
    "Loads",
    "Lodger",
    "Placed",
    "partition",
    "partitions",
    "pipeline_pairs",
]
