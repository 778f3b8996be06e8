"""Recursive halving and doubling, for any number of ranks."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from simcluster.collectives.algorithm import Algorithm
from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.operation import Operation
from simcluster.collectives.patterns import halving_rounds, halving_skips, hop_counts
from simcluster.collectives.step import AlgorithmStep, ChunkLayout, Routine


class HalvingDoubling(Algorithm):
    """Reduce-scatter by halving, all-gather by doubling, all-reduce by both: log2 n rounds each, rounded up.

    In a round with skip s every rank sends to the rank s places on, around the circle, so that no number of
    ranks needs a round of its own for those beyond a power of two. The skips are n/2, n/4, ... 1, each
    rounded up, and the blocks sent are what halving left out: n - 1 of S/n bytes in all, as few as a ring
    sends. On several hosts with p ranks each, rounds with s >= p leave the host altogether; of the others
    the last s ranks of a host do, through the cards beside them. Every round waits for the one before it.

    It runs only where it is named. NCCL has none, and HCCL halves and doubles between servers, below a mesh
    inside each of them, which this is not. Its protocols are those of the ring where a host lists none.
    """

    kind: ClassVar[str] = "halving_doubling"
    operations: ClassVar[frozenset[Operation]] = frozenset(
        {Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER, Operation.BARRIER}
    )

    def steps(self, operation: Operation, site: GroupSite) -> Routine:
        """See ``Algorithm.steps``; the class describes them."""
        ranks = site.num_ranks
        row = np.arange(ranks).reshape(1, -1)
        hops = [hop_counts(1, site.num_units > 1)] * len(list(halving_skips(ranks)))
        steps: tuple[AlgorithmStep, ...] = ()
        if operation is not Operation.ALL_GATHER:
            steps += halving_rounds(row, 0, 1, reduce=True, hops=hops)
        if operation is not Operation.REDUCE_SCATTER:
            steps += halving_rounds(row, 0, 1, reduce=False, hops=hops)
        return Routine(ChunkLayout(ranks), steps, evened=True)
