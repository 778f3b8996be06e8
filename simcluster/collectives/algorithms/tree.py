"""The double binary tree between hosts, with a chain inside each host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from simcluster.collectives.algorithm import Algorithm
from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.operation import Operation
from simcluster.collectives.patterns import chains, double_tree, tree_depth, tree_reduction
from simcluster.collectives.step import ChunkLayout, Routine


class Tree(Algorithm):
    """All-reduce in logarithmic depth: up two complementary trees of hosts, and down again.

    Each tree carries half of the data; a host that is an inner node of one is a leaf of the other, so that
    no network card sends more than 2 S / rails (S / rails between two hosts, where ring needs almost
    twice that). Inside a host the ranks form one chain per rail, whose head talks to the network; the chains
    are rotated, so that a device sends at most 2 S and less where it is some chain's head or tail. After
    the first bytes have passed 2 (p - 1) links inside hosts and twice the trees' depth between them,
    everything streams.
    """

    kind: ClassVar[str] = "tree"
    operations: ClassVar[frozenset[Operation]] = frozenset({Operation.ALL_REDUCE, Operation.BARRIER})
    chosen: ClassVar[Mapping[str, frozenset[Operation]]] = {"nccl": operations}

    def steps(self, operation: Operation, site: GroupSite) -> Routine:
        """See ``Algorithm.steps``; the class describes them."""
        trees = double_tree(site.num_units)
        ways = chains(site)
        up, down = tree_reduction(ways, trees, (site.most - 1, tree_depth(trees)))
        return Routine(ChunkLayout(1, len(ways) * len(trees)), (up, down), evened=True)
