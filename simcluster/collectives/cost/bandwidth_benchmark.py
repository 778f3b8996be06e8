"""A collective at several sizes, with the two rates that nccl-tests prints."""

from __future__ import annotations

from collections.abc import Iterable

from simcluster.cluster import Cluster, GroupPlacement
from simcluster.collectives.cost.algorithm_cost import AlgorithmChoice, collective_time
from simcluster.collectives.cost.algorithm_selection import AUTO, CollectiveRequest
from simcluster.collectives.operation import Operation
from simcluster.collectives.traffic import UnequalParts
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """One size: ``num_bytes`` as ``Operation`` counts them, how they travel, and the rates in bytes/s.

    ``algbw`` is bytes / time; ``busbw`` is that times ``Operation.bus_factor``. The time is the one that a
    run charges, in whole nanoseconds.
    """

    num_bytes: float
    choice: AlgorithmChoice
    algbw: float
    busbw: float

    @property
    def seconds(self) -> float:
        """Seconds from the last rank's arrival to the end for all."""
        return self.choice.duration_ns * 1e-9


def benchmark(
    operation: Operation,
    placement: GroupPlacement,
    sizes: Iterable[float],
    cluster: Cluster,
    wanted: str | CollectiveRequest = AUTO,
    parts: UnequalParts | None = None,
) -> list[BenchmarkRow]:
    """A row per size for a group of this placement, alone on the cluster; ``parts`` as ``collective_time``.

    Raises PlanError for fewer than two ranks, and what ``collective_time`` raises.
    """
    if placement.num_ranks < 2:
        raise PlanError("a collective needs at least two ranks", hint="take more hosts, or more ranks")
    rows = []
    for num_bytes in sizes:
        choice = collective_time(operation, placement, num_bytes, cluster, wanted, parts)
        algbw = num_bytes / (choice.duration_ns * 1e-9)
        rows.append(BenchmarkRow(num_bytes, choice, algbw, algbw * operation.bus_factor(placement.num_ranks)))
    return rows
