"""Reduction in the switches inside hosts, and double binary trees between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from simcluster.collectives.algorithm import Algorithm
from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.operation import Operation
from simcluster.collectives.patterns import (
    double_tree,
    switch_broadcast,
    switch_reduce,
    tree_depth,
    tree_reduction,
)
from simcluster.collectives.step import ChunkLayout, Routine


class NvlsTree(Algorithm):
    """All-reduce: each host's switch reduces, its ranks each climb two trees of hosts with their part.

    Inside a host as ``nvls``; between hosts a card carries what ``tree`` has it carry. All of it streams.
    """

    kind: ClassVar[str] = "nvls_tree"
    operations: ClassVar[frozenset[Operation]] = frozenset({Operation.ALL_REDUCE, Operation.BARRIER})
    own_protocols: ClassVar[bool] = True
    chosen: ClassVar[Mapping[str, frozenset[Operation]]] = {"nccl": operations}

    def supports(self, operation: Operation, site: GroupSite) -> bool:
        """Several equal units whose switches reduce."""
        equal = site.num_units > 1 and site.is_even and site.most > 1
        return operation in self.operations and equal and site.switched

    def steps(self, operation: Operation, site: GroupSite) -> Routine:
        """See ``Algorithm.steps``; the class describes them."""
        trees = double_tree(site.num_units)
        ways = [[np.array([rank]) for rank in column] for column in site.grid.T]
        up, down = tree_reduction(ways, trees, (0, tree_depth(trees)), streams=True)
        steps = (
            *switch_reduce(site, len(trees), hops=(1, 0)),
            up,
            down,
            *switch_broadcast(site, len(trees), hops=(0, 0), streams=True),
        )
        return Routine(ChunkLayout(1, site.most * len(trees)), steps, evened=True)
