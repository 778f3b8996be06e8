"""What hosts hold for their devices, in memory and on disks: all devices of a host together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster import Host
from simcluster.engine import ClassTiming, Timing, instruction_times, memory
from simcluster.engine.account import CATEGORIES, used
from simcluster.model import Place
from simcluster.simulation.build import Built
from simcluster.trace import Table

Ints = NDArray[np.int64]


def host_peaks(built: Built, timing: Timing) -> list[dict[str, Any]]:
    """Per sort of hosts and place on them: the peak, when it was, what it was made of, and whether it fits.

    Hosts are of one sort whose devices behave alike. Nothing where nothing lies off the devices.
    """
    places = used(built.program)
    if not places:
        return []
    sorts = _sorts(built)
    return [entry for place in places for entry in _of_place(built, timing, place, sorts)]


_Sort = tuple[int, tuple[tuple[int, int], ...]]
"""The kind of a host, and how many devices of which classes it has."""


def _sorts(built: Built) -> dict[_Sort, list[int]]:
    """The hosts of every sort, by the first rank of each."""
    ranks = np.arange(built.plan.mesh.num_ranks)
    hosts, kinds = built.cluster.hosts_of(ranks), built.cluster.group_of(ranks)
    found: dict[_Sort, list[int]] = {}
    for host in np.unique(hosts).tolist():
        mine = np.flatnonzero(hosts == host)
        kind = built.cluster.groups[int(kinds[mine[0]])].kind
        counts = Counter(built.classes.of_rank[mine].tolist())
        found.setdefault((kind, tuple(sorted(counts.items()))), []).append(int(mine[0]))
    return found


def _of_place(
    built: Built, timing: Timing, place: Place, sorts: dict[_Sort, list[int]]
) -> Sequence[dict[str, Any]]:
    tables = [_table(built, index, each, place) for index, each in enumerate(timing.classes)]
    plan = built.plan.offload
    limit = plan.host_limit if place is Place.HOST else plan.disk_limit
    block = plan.host_block if place is Place.HOST else 1
    found = []
    for (kind, classes), ranks in sorts.items():
        host = built.cluster.kinds[kind]
        held = [_columns(tables[index], number, block) for index, number in classes]
        time, category, size, taken = map(np.concatenate, zip(*held, strict=True))
        order = np.lexsort((taken > 0, time))
        level = np.cumsum(taken[order])
        top = int(level.argmax()) if level.size else 0
        total = int(level[top]) if level.size else 0
        devices = sum(number for _, number in classes)
        capacity = _capacity(host, place)
        if limit is not None:
            capacity = min(capacity, limit * devices)
        until = order[: top + 1]
        entry: dict[str, Any] = {
            "place": str(place),
            "host": host.name,
            "hosts": len(ranks),
            "rank": ranks[0],
            "devices": devices,
            "total": total,
            "capacity": capacity,
            "time_s": float(time[order][top]) * 1e-9 if level.size else 0.0,
            "breakdown": {
                name: int(size[until][category[until] == number].sum())
                for number, name in enumerate(CATEGORIES)
            },
            "fits": total <= capacity,
        }
        if not entry["fits"]:
            first = int(np.argmax(level > capacity))
            entry |= {"exceeded_at_s": float(time[order][first]) * 1e-9, "excess": total - capacity}
        found.append(entry)
    return found


def _columns(table: Table, number: int, block: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Times, categories and bytes of so many devices of a class, and what they take in whole blocks."""
    size = table["bytes"].astype(np.int64)
    level = -(-np.cumsum(size) // block) * block
    taken = np.diff(level, prepend=0)
    return table["time"].astype(np.int64), table["category"].astype(np.int64), size * number, taken * number


def _table(built: Built, index: int, timing: ClassTiming, place: Place) -> Table:
    """What every device of a class has there."""
    rank = built.classes.representatives[index]
    part, device = built.program.part_of(rank), built.cluster.device(rank)
    return memory(built.program, [part], [device], [timing], [instruction_times(timing)], place)


def _capacity(host: Host, place: Place) -> int:
    return host.memory if place is Place.HOST else host.disk_capacity
