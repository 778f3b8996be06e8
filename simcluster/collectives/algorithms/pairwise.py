"""The pairwise exchange: in step s every rank sends to the rank s places on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from simcluster.collectives.algorithm import Algorithm
from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.operation import Operation
from simcluster.collectives.step import ChunkLayout, GroupExchange, Routine


class Pairwise(Algorithm):
    """All-to-all as n - 1 exchanges of S/n bytes that are in flight together.

    Each exchange pays its level's latency; the bytes stream: a device sends to its p - 1 peers inside the
    host, a network card serves all its ranks' transfers to the other n - p.
    """

    kind: ClassVar[str] = "pairwise"
    operations: ClassVar[frozenset[Operation]] = frozenset({Operation.ALL_TO_ALL, Operation.ALL_TO_ALL_V})
    chosen: ClassVar[Mapping[str, frozenset[Operation]]] = {"nccl": operations, "hccl": operations}

    def steps(self, operation: Operation, site: GroupSite) -> Routine:
        """See ``Algorithm.steps``; the class describes them."""
        ranks = site.num_ranks
        row = np.arange(ranks, dtype=np.int64)[np.newaxis]
        hops = (site.fewest - 1, ranks - site.fewest)
        return Routine(
            ChunkLayout(ranks * ranks, arrays=ranks),
            (GroupExchange(groups=row, out=row * ranks, into=row, hops=hops),),
        )
