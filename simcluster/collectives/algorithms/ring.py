"""The ring: every rank passes to its neighbour what it got from the one before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from simcluster.collectives.algorithm import Algorithm
from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.operation import Operation
from simcluster.collectives.patterns import ring_rounds, rings
from simcluster.collectives.step import AlgorithmStep, ChunkLayout, Routine, Sends
from simcluster.number_arrays import Ints


class Ring(Algorithm):
    """n - 1 rounds of S/n bytes (all-reduce: 2(n - 1)), one ring per rail, or as many as a mesh holds.

    On several hosts each of the r rings leaves a host through its own network card, and the rank that sends
    there differs from ring to ring: a card carries S/(n r) per round, a device S/n, or (r - 1)/r of that if
    every rank is some ring's last. Of the rounds, N - 1 (twice in all-reduce) wait for the network, as NCCL
    counts them. Broadcast and reduce stream along open rings.
    """

    kind: ClassVar[str] = "ring"
    operations: ClassVar[frozenset[Operation]] = frozenset(
        {
            Operation.ALL_REDUCE,
            Operation.ALL_GATHER,
            Operation.REDUCE_SCATTER,
            Operation.BROADCAST,
            Operation.REDUCE,
            Operation.BARRIER,
        }
    )
    chosen: ClassVar[Mapping[str, frozenset[Operation]]] = {"nccl": operations, "hccl": operations}

    def steps(self, operation: Operation, site: GroupSite) -> Routine:
        """See ``Algorithm.steps``; the class describes them."""
        orders = rings(site)
        ranks, units = site.num_ranks, site.num_units
        hops = (ranks - units, units - 1)
        if operation in (Operation.BROADCAST, Operation.REDUCE):
            return _open(operation, orders, hops, site.units[0])
        cut = ChunkLayout(ranks, len(orders), orders)
        base = np.arange(len(orders)) * ranks
        steps: tuple[AlgorithmStep, ...] = ()
        if operation is not Operation.ALL_GATHER:
            steps += ring_rounds(orders, base, 1, reduce=True, hops=hops)
        if operation is not Operation.REDUCE_SCATTER:
            steps += ring_rounds(orders, base, 1, reduce=False, hops=hops)
        return Routine(cut, steps)


def _open(operation: Operation, orders: Ints, hops: tuple[int, int], near: int) -> Routine:
    """Along every ring from the first rank on, or back to it; a rank passes on what it has got.

    ``near``: ranks of the first rank's unit.
    """
    count, size = orders.shape
    at = np.argmax(orders == 0, axis=1)
    if near == size:
        ways = np.take_along_axis(orders, (at[:, None] + np.arange(size)) % size, axis=1)
    else:
        # The first rank is taken out of its place, so that no ring comes back to its host.
        behind = np.arange(size) - (np.arange(size) <= at[:, None])
        ways = np.take_along_axis(orders, behind, axis=1)
        ways[:, 0] = 0
    before, after = ways[:, :-1].copy(), ways[:, 1:]
    if near < size:
        # A ring that would leave the unit at the first rank leaves it there at once, beside the unit's chain.
        before[at == near - 1, near - 1] = 0
    inwards = operation is Operation.REDUCE
    turns = np.tile(np.arange(size - 1), count)
    sends = Sends(
        src=(after if inwards else before).ravel(),
        dst=(before if inwards else after).ravel(),
        first=np.repeat(np.arange(count), size - 1),
        modulus=count,
        combine=inwards,
        turns=-turns if inwards else turns,
        hops=hops,
    )
    return Routine(ChunkLayout(1, count), (sends,))
