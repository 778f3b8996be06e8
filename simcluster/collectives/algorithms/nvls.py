"""Reduction in the switch inside a host or pod (NVLink SHARP)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from simcluster.collectives.algorithm import Algorithm
from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.operation import Operation
from simcluster.collectives.patterns import network_reduce, switch_broadcast, switch_reduce
from simcluster.collectives.step import ChunkLayout, Routine


class Nvls(Algorithm):
    """All-reduce through the switch: S + S/n out of each device and as much into it, whatever n.

    The switch adds up what all ranks have for the n-th part that a rank owns and hands it to that rank, which
    stores it through the switch to all. Reduce-scatter is the first half, all-gather the second. Several
    hosts need a network that reduces too; then the owners of a part meet at a switch of it in between.
    """

    kind: ClassVar[str] = "nvls"
    operations: ClassVar[frozenset[Operation]] = frozenset(
        {Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER, Operation.BARRIER}
    )
    own_protocols: ClassVar[bool] = True
    chosen: ClassVar[Mapping[str, frozenset[Operation]]] = {"nccl": operations}

    def supports(self, operation: Operation, site: GroupSite) -> bool:
        """One unit whose switch reduces; all-reduce also several, if the network reduces."""
        if operation not in self.operations or not site.switched or site.most < 2:
            return False
        reduces = operation in (Operation.ALL_REDUCE, Operation.BARRIER)
        return site.num_units == 1 or (site.aggregated and site.is_even and reduces)

    def in_network(self, site: GroupSite) -> bool:
        """Between hosts."""
        return site.num_units > 1

    def steps(self, operation: Operation, site: GroupSite) -> Routine:
        """See ``Algorithm.steps``; the class describes them."""
        cut = ChunkLayout(site.most)
        if operation is Operation.REDUCE_SCATTER:
            return Routine(cut, switch_reduce(site, 1, hops=(1, 0)))
        if operation is Operation.ALL_GATHER:
            return Routine(cut, switch_broadcast(site, 1, hops=(1, 0), streams=False))
        steps = switch_reduce(site, 1, hops=(1, 0))
        if site.num_units > 1:
            steps += network_reduce(site, 1, hops=(0, 1), streams=True)
        return Routine(cut, steps + switch_broadcast(site, 1, hops=(0, 0), streams=True))
