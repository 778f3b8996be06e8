"""HCCL's pipeline: a ring between units, while each unit spreads what came in the round before."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from simcluster.collectives.algorithm import Algorithm
from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.operation import Operation
from simcluster.collectives.patterns import column_major_blocks, ring_rounds
from simcluster.collectives.step import AlgorithmStep, Routine, Sends
from simcluster.number_arrays import Ints


class Pipeline(Algorithm):
    """q - 1 rounds among q equal units, in each of which both levels work, and one round more inside.

    With p ranks in a unit a round sends one block of S/(p q) along each rail and to each peer: all-gather
    takes (q - 1) max(between, inside) + inside, reduce-scatter the same, all-reduce both.
    """

    kind: ClassVar[str] = "pipeline"
    operations: ClassVar[frozenset[Operation]] = frozenset(
        {Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER, Operation.BARRIER}
    )

    def supports(self, operation: Operation, site: GroupSite) -> bool:
        """Equal units of two ranks and more."""
        return operation in self.operations and site.num_units > 1 and site.most > 1 and site.is_even

    def steps(self, operation: Operation, site: GroupSite) -> Routine:
        """See ``Algorithm.steps``; the class describes them."""
        rows = site.grid
        steps: tuple[AlgorithmStep, ...] = ()
        if operation is not Operation.ALL_GATHER:
            steps += _reduce(rows)
        if operation is not Operation.REDUCE_SCATTER:
            steps += _gather(rows)
        return Routine(column_major_blocks(site), steps)


def _gather(rows: Ints) -> tuple[AlgorithmStep, ...]:
    """In round t unit h passes on, and spreads inside, the blocks of unit h - t."""
    units, peers = rows.shape
    ring = ring_rounds(rows.T, np.arange(peers) * units, 1, reduce=False, hops=(0, units - 1))
    spread = _inside(rows, 0, units - 1, reduce=False, hops=(0, 0), streams=True)
    return (*ring, spread, _inside(rows, units - 1, 1, reduce=False, hops=(1, 0), streams=False))


def _reduce(rows: Ints) -> tuple[AlgorithmStep, ...]:
    """The same backwards: in round t unit h passes on the blocks of unit h - 1 - t, collects those after."""
    units, peers = rows.shape
    first = _inside(rows, 1, 1, reduce=True, hops=(1, 0), streams=False)
    collect = _inside(rows, 2, units - 1, reduce=True, hops=(0, units - 1), streams=False)
    ring = ring_rounds(rows.T, np.arange(peers) * units, 1, reduce=True, hops=(0, 0), streams=True)
    return (first, collect, *ring)


def _inside(
    rows: Ints, behind: int, repeat: int, *, reduce: bool, hops: tuple[int, int], streams: bool
) -> AlgorithmStep:
    """Each rank and each of its peers: the blocks of the unit so far behind, then of those before it."""
    units, peers = rows.shape
    here, there = np.divmod(np.arange(peers * peers), peers)
    here, there = here[here != there], there[here != there]
    return Sends(
        src=rows[:, here].ravel(),
        dst=rows[:, there].ravel(),
        base=np.tile((there if reduce else here) * units, units),
        first=np.repeat(np.arange(units) - behind, here.size),
        modulus=units,
        advance=-1,
        repeat=repeat,
        combine=reduce,
        hops=hops,
        streams=streams,
    )
