"""Reduction in the network's switches (SHARP), with a mesh inside hosts: NCCL's CollNetDirect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from simcluster.collectives.algorithm import Algorithm
from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.operation import Operation
from simcluster.collectives.patterns import INSIDE, all_to_all_round, network_reduce
from simcluster.collectives.step import ChunkLayout, Routine


class Collnet(Algorithm):
    """All-reduce as reduce-scatter inside, one way up into the network and back, all-gather inside.

    The ranks at one place of all hosts meet at the lowest switch over them. A card sends S / p and receives
    as much, whatever the number of hosts: half of what a ring needs.
    """

    kind: ClassVar[str] = "collnet"
    operations: ClassVar[frozenset[Operation]] = frozenset({Operation.ALL_REDUCE, Operation.BARRIER})
    own_protocols: ClassVar[bool] = True
    chosen: ClassVar[Mapping[str, frozenset[Operation]]] = {"nccl": operations}

    def supports(self, operation: Operation, site: GroupSite) -> bool:
        """Several equal units on a network that reduces."""
        return operation in self.operations and site.aggregated and site.num_units > 1 and site.is_even

    def in_network(self, site: GroupSite) -> bool:
        """Always."""
        return True

    def steps(self, operation: Operation, site: GroupSite) -> Routine:
        """See ``Algorithm.steps``; the class describes them."""
        rows = site.grid
        steps = (
            *all_to_all_round(rows, 0, 1, reduce=True, hops=INSIDE),
            *network_reduce(site, 1, hops=(0, 1), streams=True),
            *all_to_all_round(rows, 0, 1, reduce=False, hops=INSIDE, streams=True),
        )
        return Routine(ChunkLayout(site.most), steps)
