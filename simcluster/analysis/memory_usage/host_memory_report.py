"""Memory and disks of hosts: what all devices of a host keep there together."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from simcluster.analysis.memory_usage.allocation_log import CATEGORIES
from simcluster.analysis.memory_usage.allocation_table import AllocationAccount
from simcluster.analysis.memory_usage.memory_verdict import MemoryUse
from simcluster.deferred_dataclass import dataclass
from simcluster.draw import thin_levels
from simcluster.engine import Timing
from simcluster.model import MemoryPlace
from simcluster.number_arrays import Ints
from simcluster.plan import OffloadPlan
from simcluster.program import PlacedProgram
from simcluster.trace import Table

SPANS = 360
"""The number of equal spans of a run of which the highest level is reported."""


@dataclass(frozen=True)
class HostMemory:
    """The memory or disks of hosts whose devices behave alike, over time.

    ``entry`` says who they are and what they can hold. Rows are in the order of time (ns): the category, its
    bytes, and the level of all from then on, in whole blocks.
    """

    entry: dict[str, Any]
    times: Ints
    category: Ints
    size: Ints
    level: Ints

    def peak(self) -> dict[str, Any]:
        """The peak, when it was, what it was made of, and whether it fits."""
        # Before the first row there is nothing.
        times, level = np.pad(self.times, (1, 0)), np.pad(self.level, (1, 0))
        top, capacity = int(level.argmax()), self.entry["capacity"]
        total, size, category = int(level[top]), self.size[:top], self.category[:top]
        entry: dict[str, Any] = {
            **self.entry,
            "total": total,
            "time_s": float(times[top]) * 1e-9,
            "breakdown": {
                name: int(size[category == number].sum()) for number, name in enumerate(CATEGORIES)
            },
            **MemoryUse(total, 0, capacity).document(),
        }
        if total > capacity:
            first = int(np.argmax(level > capacity))
            entry |= {"exceeded_at_s": float(times[first]) * 1e-9, "excess": total - capacity}
        return entry

    def over_time(self, end: int) -> dict[str, Any]:
        """Bytes by category at the highest moment of each of so many equal spans up to ``end`` (ns)."""
        kinds = np.unique(self.category)
        sizes = np.where(self.category == kinds[:, None], self.size, 0)
        # Before the first row there is nothing.
        levels = np.cumsum(np.pad(sizes, ((0, 0), (1, 0))), axis=1)
        times = np.pad(self.times, (1, 0)).astype(np.float64)
        chosen = thin_levels(times, levels.astype(np.float64), float(end), SPANS)
        told = {CATEGORIES[kind]: level[chosen].tolist() for kind, level in zip(kinds, levels, strict=True)}
        return {**self.entry, "end_s": end * 1e-9, "levels": told}


def summarise_host_memory(placed: PlacedProgram, timing: Timing, offload: OffloadPlan) -> list[HostMemory]:
    """One entry per kind of host and place; empty where nothing is offloaded."""
    members = []
    for place in placed.program.places_off_device:
        account, on_host = AllocationAccount(placed, timing, place), place is MemoryPlace.HOST
        tables = [account.rows(index) for index in range(len(timing.classes))]
        limit, block = (offload.host_limit, offload.host_block) if on_host else (offload.disk_limit, 1)
        for (kind, classes), ranks in _sorts(placed).items():
            host, devices = placed.cluster.kinds[kind], sum(number for _, number in classes)
            held = [_columns(tables[index], number, block) for index, number in classes]
            time, category, size, taken = map(np.concatenate, zip(*held, strict=True))
            order = np.lexsort((taken > 0, time))
            capacity = host.memory if on_host else host.disk_capacity
            entry = {
                "place": str(place),
                "host": host.name,
                "hosts": len(ranks),
                "rank": ranks[0],
                "devices": devices,
                "capacity": capacity if limit is None else min(capacity, limit * devices),
            }
            rows = time[order], category[order], size[order], np.cumsum(taken[order])
            members.append(HostMemory(entry, *rows))
    return members


_Sort = tuple[int, tuple[tuple[int, int], ...]]
"""The kind of a host, and how many devices of which classes it has."""


def _sorts(placed: PlacedProgram) -> dict[_Sort, list[int]]:
    """The hosts of every sort, by the first rank of each."""
    ranks, cluster = np.arange(placed.num_ranks), placed.cluster
    hosts, kinds = cluster.hosts_of(ranks), cluster.group_of(ranks)
    first_ranks: dict[_Sort, list[int]] = {}
    for host in np.unique(hosts).tolist():
        ranks_here = np.flatnonzero(hosts == host)
        kind = cluster.groups[int(kinds[ranks_here[0]])].kind
        counts = Counter(placed.classes.of_rank[ranks_here].tolist())
        first_ranks.setdefault((kind, tuple(sorted(counts.items()))), []).append(int(ranks_here[0]))
    return first_ranks


def _columns(table: Table, number: int, block: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Times, categories and bytes of so many devices of a class, and what they take in whole blocks."""
    size = table["bytes"].astype(np.int64)
    level = -(-np.cumsum(size) // block) * block
    taken = np.diff(level, prepend=0)
    return table["time"].astype(np.int64), table["category"].astype(np.int64), size * number, taken * number
