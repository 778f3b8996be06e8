"""Recursive halving and doubling, for any number of ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from simcluster.cluster.link import Level
from simcluster.cluster.span import Span
from simcluster.collectives.algorithm import Algorithm, channels, pieces
from simcluster.collectives.operation import Operation
from simcluster.collectives.step import Step
from simcluster.collectives.wire import Array, Wire


class HalvingDoubling(Algorithm):
    """Reduce-scatter by halving, all-gather by doubling, all-reduce by both: log2 n rounds each, rounded up.

    In a round with skip s every rank sends to the rank s places on, around the circle, so that no number of
    ranks needs a round of its own for those beyond a power of two. The skips are n/2, n/4, ... 1, each
    rounded up, and the blocks sent are what halving left out: n - 1 of S/n bytes in all, as few as a ring
    sends. On several hosts with p ranks each, rounds with s >= p leave the host altogether; of the others
    the last s ranks of a host do, through the cards beside them. Every round waits for the one before it.

    Where devices are joined pair by pair it is taken to use all their links, as the ring is: in channels
    that number the ranks differently.

    It runs only where it is named. NCCL has none, and HCCL halves and doubles between servers, below a mesh
    inside each of them, which this is not. Its protocols are those of the ring where a host lists none.
    """

    kind: ClassVar[str] = "halving_doubling"
    operations: ClassVar[frozenset[Operation]] = frozenset(
        {Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER}
    )
    automatic: ClassVar[bool] = False

    def steps(self, operation: Operation, span: Span, num_bytes: float) -> tuple[Step, ...]:
        """See ``Algorithm.steps``; what they are is told above."""
        block = num_bytes / span.num_ranks
        alone, mates = span.num_hosts == 1, span.ranks_per_host
        on_a_card = -(-mates // span.rails)
        level = Level.HOST if alone else Level.NETWORK
        halving = []
        for skip, count in _rounds(span.num_ranks):
            inside = count * block if alone or skip < mates else 0.0
            between = 0.0 if alone else count * block * min(skip, on_a_card)
            halving.append(Step(1, level, (inside, between)))
        match operation:
            case Operation.REDUCE_SCATTER:
                return tuple(halving)
            case Operation.ALL_GATHER:
                return tuple(reversed(halving))
            case _:
                return (*halving, *reversed(halving))

    def run(
        self, operation: Operation, arrays: Sequence[Array], wire: Wire, reduction: np.ufunc = np.add
    ) -> list[Array]:
        """See ``Algorithm.run``."""
        ranks = wire.num_ranks
        if operation is Operation.ALL_GATHER:
            return [np.concatenate(blocks) for blocks in _gathered(arrays, wire)]
        if operation is Operation.REDUCE_SCATTER:
            return _reduced([pieces(array, ranks) for array in arrays], wire, reduction)
        own = _reduced([channels(array, ranks) for array in arrays], wire, reduction)
        return [np.concatenate(blocks).reshape(arrays[0].shape) for blocks in _gathered(own, wire)]


def _rounds(ranks: int) -> Iterator[tuple[int, int]]:
    """The skip of every round of halving, and how many blocks each rank sends in it."""
    left = ranks
    while left > 1:
        skip = -(-left // 2)
        yield skip, left - skip
        left = skip


def _reduced(blocks: Sequence[Sequence[Array]], wire: Wire, reduction: np.ufunc) -> list[Array]:
    """Each rank's own block of the reduction; ``blocks`` are by rank, then by owner."""
    ranks = wire.num_ranks
    # By distance to the owner: held[rank][d] is the rank's part of what rank + d will own.
    held = [[blocks[rank][(rank + away) % ranks] for away in range(ranks)] for rank in range(ranks)]
    for skip, count in _rounds(ranks):
        wire.num_rounds += 1
        arrived = [
            ((src + skip) % ranks, near, wire.send(src, (src + skip) % ranks, held[src][skip + near]))
            for src in range(ranks)
            for near in range(count)
        ]
        for dst, near, data in arrived:
            held[dst][near] = reduction(held[dst][near], data)
    return [held[rank][0] for rank in range(ranks)]


def _gathered(own: Sequence[Array], wire: Wire) -> list[list[Array]]:
    """Every rank's blocks by owner, from the one that each rank starts with."""
    ranks = wire.num_ranks
    # By distance from the owner: held[rank][d] belongs to rank - d.
    held = [[block] for block in own]
    for skip, count in reversed(list(_rounds(ranks))):
        wire.num_rounds += 1
        arrived = [
            ((src + skip) % ranks, wire.send(src, (src + skip) % ranks, held[src][near]))
            for src in range(ranks)
            for near in range(count)
        ]
        for dst, data in arrived:
            held[dst].append(data)
    return [[held[rank][(rank - owner) % ranks] for owner in range(ranks)] for rank in range(ranks)]
