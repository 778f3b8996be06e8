"""Algorithms of two levels: one inside each unit, one among the ranks at equal places of all units."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from simcluster.collectives.algorithm import Algorithm
from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.operation import Operation
from simcluster.collectives.patterns.rounds import all_to_all_round, star_round
from simcluster.collectives.step import AlgorithmStep, ChunkLayout, Routine
from simcluster.number_arrays import Ints

INSIDE = (1, 0)
BETWEEN = (0, 1)


class TwoLevel(Algorithm):
    """Each rank sends to all others of its unit at once, and ``across`` joins the ranks at equal places.

    As HCCL orders the levels (``coll_algo_intro``): all-reduce is reduce-scatter inside, all-reduce across,
    all-gather inside; reduce-scatter goes across first, all-gather inside first. Units must be equal.
    """

    operations: ClassVar[frozenset[Operation]] = frozenset(
        {Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER, Operation.BARRIER}
    )

    def supports(self, operation: Operation, site: GroupSite) -> bool:
        """Equal units, at least two."""
        return operation in self.operations and site.num_units > 1 and site.is_even

    @abstractmethod
    def across(
        self, columns: Ints, base: Ints | int, width: int, *, reduce: bool
    ) -> tuple[AlgorithmStep, ...]:
        """Reduce-scatter or all-gather within each row of ``columns``; see ``rounds`` for the arguments."""

    def steps(self, operation: Operation, site: GroupSite) -> Routine:
        """See ``Algorithm.steps``; the class describes them."""
        rows, columns = site.grid, site.grid.T
        units, peers = rows.shape
        match operation:
            case Operation.REDUCE_SCATTER:
                across = self.across(columns, 0, peers, reduce=True)
                own = all_to_all_round(rows, np.arange(units) * peers, 1, reduce=True, hops=INSIDE)
                return Routine(ChunkLayout(site.num_ranks), across + own)
            case Operation.ALL_GATHER:
                own = all_to_all_round(rows, np.arange(units) * peers, 1, reduce=False, hops=INSIDE)
                return Routine(
                    ChunkLayout(site.num_ranks), own + self.across(columns, 0, peers, reduce=False)
                )
            case _:
                base = np.arange(peers) * units
                steps = (
                    *all_to_all_round(rows, 0, units, reduce=True, hops=INSIDE),
                    *self.across(columns, base, 1, reduce=True),
                    *self.across(columns, base, 1, reduce=False),
                    *all_to_all_round(rows, 0, units, reduce=False, hops=INSIDE),
                )
                return Routine(column_major_blocks(site), steps)


def column_major_blocks(site: GroupSite) -> ChunkLayout:
    """Blocks numbered place by place of a unit, and in each place unit by unit."""
    return ChunkLayout(site.num_ranks, 1, site.grid.T.reshape(1, -1))


def root_exchange(rows: Ints, base: Ints | int, width: int, *, inwards: bool) -> tuple[AlgorithmStep, ...]:
    """Gather or scatter between the first rank of each row and its others, inside units."""
    return star_round(rows, base, width, inwards=inwards, hops=INSIDE)
