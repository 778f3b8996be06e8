"""Direct sends: every rank to every other that needs what it has, in one round or two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from simcluster.collectives.algorithm import Algorithm
from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.operation import Operation
from simcluster.collectives.patterns import all_to_all_round, hop_counts, star_round
from simcluster.collectives.step import AlgorithmStep, ChunkLayout, GroupExchange, Routine, Sends
from simcluster.number_arrays import Ints

NEIGHBORS = (Operation.NEIGHBOR_EXCHANGE, Operation.SHIFT, Operation.ROTATE)


class Direct(Algorithm):
    """The transfer between two ranks, and what HCCL calls mesh and star for more of them.

    Reduce-scatter, all-gather and all-to-all are one round of n - 1 sends of S/n bytes from every rank;
    all-reduce is the first two; broadcast and reduce are two rounds, scatter then all-gather, and
    reduce-scatter then gather; gather and scatter are one, and so is what neighbours send each other. In a
    full mesh each send has a link of its own.
    """

    kind: ClassVar[str] = "direct"
    operations: ClassVar[frozenset[Operation]] = frozenset(Operation)
    chosen: ClassVar[Mapping[str, frozenset[Operation]]] = {
        # Grouped sends and receives; HCCL has meshes for the rest, see ``chosen_on``.
        "nccl": frozenset({Operation.SEND_RECEIVE, Operation.GATHER, Operation.SCATTER, *NEIGHBORS}),
        "hccl": frozenset({Operation.SEND_RECEIVE, Operation.GATHER, Operation.SCATTER, *NEIGHBORS}),
    }

    def supports(self, operation: Operation, site: GroupSite) -> bool:
        """A transfer has two ends."""
        return site.num_ranks == 2 if operation is Operation.SEND_RECEIVE else site.num_ranks >= 2

    def steps(self, operation: Operation, site: GroupSite) -> Routine:
        """See ``Algorithm.steps``; the class describes them."""
        ranks = site.num_ranks
        hops = hop_counts(1, site.num_units > 1)
        row = np.arange(ranks, dtype=np.int64)[np.newaxis]
        match operation:
            case Operation.SEND_RECEIVE:
                ends = np.arange(2, dtype=np.int64)
                return Routine(ChunkLayout(1), (Sends(src=ends[:1], dst=ends[1:], modulus=1, hops=hops),))
            case Operation.ALL_TO_ALL | Operation.ALL_TO_ALL_V:
                exchange = GroupExchange(groups=row, out=row * ranks, into=row, hops=hops)
                return Routine(ChunkLayout(ranks * ranks, arrays=ranks), (exchange,))
            case Operation.NEIGHBOR_EXCHANGE | Operation.SHIFT | Operation.ROTATE:
                return _to_neighbors(operation, np.argsort(site.order), hops)
            case Operation.BROADCAST | Operation.SCATTER:
                first = star_round(row, 0, 1, inwards=False, hops=hops)
            case Operation.GATHER:
                first = star_round(row, 0, 1, inwards=True, hops=hops)
            case Operation.ALL_GATHER:
                first = ()
            case _:
                first = all_to_all_round(row, 0, 1, reduce=True, hops=hops)
        return Routine(ChunkLayout(ranks), first + _second(operation, row, hops))


def _to_neighbors(operation: Operation, line: Ints, hops: tuple[int, int]) -> Routine:
    """Every rank of ``line`` to the next, and in an exchange to the one before too: block 2r and 2r + 1."""
    ranks = line.size
    if operation is Operation.ROTATE:
        sends = Sends(src=line, dst=np.roll(line, -1), base=line, modulus=1, hops=hops)
        return Routine(ChunkLayout(ranks, arrays=ranks), (sends,))
    if operation is Operation.SHIFT:
        sends = Sends(src=line[:-1], dst=line[1:], base=line[:-1], modulus=1, hops=hops)
        return Routine(ChunkLayout(ranks, arrays=ranks), (sends,))
    src, dst = (np.concatenate(ends) for ends in ((line[:-1], line[1:]), (line[1:], line[:-1])))
    base = np.concatenate([2 * line[:-1] + 1, 2 * line[1:]])
    sends = Sends(src=src, dst=dst, base=base, modulus=1, hops=hops)
    return Routine(ChunkLayout(2 * ranks, arrays=ranks), (sends,))


def _second(operation: Operation, row: Ints, hops: tuple[int, int]) -> tuple[AlgorithmStep, ...]:
    match operation:
        case Operation.ALL_REDUCE | Operation.BARRIER | Operation.ALL_GATHER | Operation.BROADCAST:
            return all_to_all_round(row, 0, 1, reduce=False, hops=hops)
        case Operation.REDUCE:
            return star_round(row, 0, 1, inwards=True, hops=hops)
        case _:
            return ()
