"""The hierarchy with rings across: a mesh inside units, a ring among the ranks at equal places."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.operation import Operation
from simcluster.collectives.patterns import (
    BETWEEN,
    INSIDE,
    TwoLevel,
    all_to_all_round,
    ring_rounds,
    root_exchange,
    star_round,
)
from simcluster.collectives.step import AlgorithmStep, ChunkLayout, GroupExchange, Routine, Sends
from simcluster.number_arrays import Ints


class Hierarchical(TwoLevel):
    """Any operation between equal units in two levels, so that each rank talks to its rail alone.

    Broadcast is scatter inside the root's unit, streams across along each rail, all-gather inside; reduce is
    the same backwards. Scatter goes across first, gather inside first. All-to-all collects, inside each
    unit, what is for place j of any unit at place j, which sends it on along its rail.
    """

    kind: ClassVar[str] = "hierarchical"
    operations: ClassVar[frozenset[Operation]] = frozenset(Operation) - {
        Operation.SEND_RECEIVE,
        Operation.NEIGHBOR_EXCHANGE,
        Operation.SHIFT,
        Operation.ROTATE,
    }

    def across(
        self, columns: Ints, base: Ints | int, width: int, *, reduce: bool
    ) -> tuple[AlgorithmStep, ...]:
        """See ``TwoLevel.across``: a ring."""
        return ring_rounds(columns, base, width, reduce=reduce, hops=(0, columns.shape[1] - 1))

    def steps(self, operation: Operation, site: GroupSite) -> Routine:
        """See ``Algorithm.steps``; the class describes them."""
        rows, columns = site.grid, site.grid.T
        units, peers = rows.shape
        ranks = site.num_ranks
        match operation:
            case Operation.ALL_TO_ALL | Operation.ALL_TO_ALL_V:
                return Routine(ChunkLayout(ranks * ranks, arrays=ranks), _all_to_all(rows))
            case Operation.BROADCAST:
                root = root_exchange(rows[:1], 0, 1, inwards=False)
                gather = all_to_all_round(rows, 0, 1, reduce=False, hops=INSIDE)
                return Routine(ChunkLayout(peers), (*root, _line(columns, reduce=False), *gather))
            case Operation.REDUCE:
                scatter = all_to_all_round(rows, 0, 1, reduce=True, hops=INSIDE)
                root = root_exchange(rows[:1], 0, 1, inwards=True)
                return Routine(ChunkLayout(peers), (*scatter, _line(columns, reduce=True), *root))
            case Operation.SCATTER | Operation.GATHER:
                inwards = operation is Operation.GATHER
                inside = root_exchange(rows, np.arange(units) * peers, 1, inwards=inwards)
                between = star_round(columns[:1], 0, peers, inwards=inwards, hops=BETWEEN)
                return Routine(ChunkLayout(ranks), inside + between if inwards else between + inside)
            case _:
                return TwoLevel.steps(self, operation, site)


def _line(columns: Ints, *, reduce: bool) -> AlgorithmStep:
    """Each column's chunk from its first rank along the column, or reduced back to it."""
    peers, units = columns.shape
    turns = np.tile(np.arange(units - 1), peers)
    return Sends(
        src=(columns[:, 1:] if reduce else columns[:, :-1]).ravel(),
        dst=(columns[:, :-1] if reduce else columns[:, 1:]).ravel(),
        first=np.repeat(np.arange(peers), units - 1),
        modulus=peers,
        combine=reduce,
        turns=-turns if reduce else turns,
        hops=(0, units - 1),
    )


def _all_to_all(rows: Ints) -> tuple[AlgorithmStep, ...]:
    units, peers = rows.shape
    ranks, columns = rows.size, rows.T
    places = np.broadcast_to(np.arange(peers), rows.shape)
    inside = GroupExchange(groups=rows, out=rows * ranks, into=places, count=units, stride=peers, hops=INSIDE)
    first = np.broadcast_to(rows[:, 0] * ranks, columns.shape)
    between = GroupExchange(
        groups=columns, out=first, into=columns, count=peers, stride=ranks, hops=(0, units - 1)
    )
    return (inside, between) if peers > 1 else (between,)
