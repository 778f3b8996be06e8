"""One binary tree between hosts, with chains inside them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from simcluster.collectives.algorithm import Algorithm
from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.operation import Operation
from simcluster.collectives.patterns import chains, single_tree, tree_depth, tree_reduction
from simcluster.collectives.step import ChunkLayout, Routine


class BinaryTree(Algorithm):
    """A single tree where ``tree`` has two: an inner host sends all data three times, a leaf once.

    Broadcast and reduce go down or up it alone, along one rail, from or to the first rank. It runs only where
    it is named: NCCL has left it for the double tree.
    """

    kind: ClassVar[str] = "binary_tree"
    operations: ClassVar[frozenset[Operation]] = frozenset(
        {Operation.ALL_REDUCE, Operation.BROADCAST, Operation.REDUCE, Operation.BARRIER}
    )

    def steps(self, operation: Operation, site: GroupSite) -> Routine:
        """See ``Algorithm.steps``; the class describes them."""
        trees, ways = single_tree(site.num_units), chains(site)
        hops = (site.most - 1, tree_depth(trees))
        if operation in (Operation.ALL_REDUCE, Operation.BARRIER):
            return Routine(ChunkLayout(1, len(ways)), tree_reduction(ways, trees, hops), evened=True)
        first, *others = ways[0]
        way = [[np.concatenate([[0], first[first != 0]]), *others]]
        up, down = tree_reduction(way, trees, hops)
        return Routine(ChunkLayout(1), (up if operation is Operation.REDUCE else down,))
