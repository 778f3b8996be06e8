"""The pairwise exchange: in step s every rank sends to the rank s places on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.cluster.span import Span
from simcluster.collectives.algorithm import Algorithm, pieces
from simcluster.collectives.operation import Operation
from simcluster.collectives.step import Step, hops
from simcluster.collectives.wire import Array, Wire


class Pairwise(Algorithm):
    """All-to-all as n - 1 exchanges of S/n bytes that are in flight together.

    Each exchange pays its level's latency; the bytes stream: a device sends to its p - 1 mates inside the
    host, a network card serves all its ranks' transfers to the other n - p.
    """

    kind: ClassVar[str] = "pairwise"
    operations: ClassVar[frozenset[Operation]] = frozenset({Operation.ALL_TO_ALL})

    def steps(self, operation: Operation, span: Span, num_bytes: float) -> tuple[Step, ...]:
        """See ``Algorithm.steps``; what they are is told above."""
        ranks = span.num_ranks
        block = num_bytes / ranks
        counts = (span.ranks_per_host, span.fewest_per_host)
        between = max(-(-mates // span.rails) * (ranks - mates) for mates in counts)
        stream = Step(1, None, (block * (span.ranks_per_host - 1), block * between))
        return (*hops(ranks - span.fewest_per_host, span.fewest_per_host - 1), stream)

    def run(
        self, operation: Operation, arrays: Sequence[Array], wire: Wire, reduction: np.ufunc = np.add
    ) -> list[Array]:
        """See ``Algorithm.run``."""
        ranks = wire.num_ranks
        blocks = [pieces(array, ranks) for array in arrays]
        received = [[blocks[rank][rank]] * ranks for rank in range(ranks)]
        for step in range(1, ranks):
            wire.num_rounds += 1
            for src in range(ranks):
                dst = (src + step) % ranks
                received[dst][src] = wire.send(src, dst, blocks[src][dst])
        return [np.concatenate(parts) for parts in received]
