"""Why ranks that run the same are several classes: which changed device or link can delay them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from simcluster.cluster import NOMINAL, Cluster
from simcluster.program.symmetry.coloured_graph import GroupLoads
from simcluster.program.symmetry.rank_classes import RankClasses


def find_class_splits(classes: RankClasses, cluster: Cluster) -> Mapping[int, str]:
    """Class -> the change of its own device or link, or the class through which it meets a changed one.

    A class's links are those that its groups and its transfers load, whoever of them sends there. Classes
    that no change can delay are absent: without changes, all of them.
    """
    speeds = [cluster.speed(rank) for rank in classes.representatives]
    why = {index: f"its device: {speed}" for index, speed in enumerate(speeds) if speed != NOMINAL}
    for index, told in _linked(classes):
        why.setdefault(index, f"its link {told}")
    if not why:
        return {}
    why = dict(sorted(why.items()))
    axes_of: dict[int, list[tuple[str, ...]]] = {}
    for index, axes in classes.groups:
        axes_of.setdefault(index, []).append(axes)
    seen: set[int] = set()
    waiting = deque(why)
    while waiting:
        index = waiting.popleft()
        for other, place in _met(classes, index, axes_of.get(index, []), seen):
            if other not in why:
                why[other] = f"meets class {index} {place}"
                waiting.append(other)
    return why


def _met(
    classes: RankClasses, index: int, every: list[tuple[str, ...]], seen: set[int]
) -> Iterator[tuple[int, str]]:
    """The classes that a class waits for or keeps waiting; ``seen`` are the groups looked at before."""
    for axes in every:
        group = classes.groups[index, axes]
        if group.id not in seen:
            seen.add(group.id)
            yield from ((member, f"over {' x '.join(axes)}") for member in group.members)
    for neighbours in (classes.next_stage, classes.prev_stage):
        if index in neighbours:
            yield neighbours[index][0], "along the pipeline"


def _linked(classes: RankClasses) -> Iterator[tuple[int, str]]:
    """Classes whose groups or transfers load a changed link, each with the first such link and its change."""
    flows = classes.flows
    if not flows.changed:
        return
    over = {axes: _changed_rows(loads, flows.changed) for axes, loads in flows.groups.items()}
    for (index, axes), group in classes.groups.items():
        if group.flow in over[axes]:
            yield index, flows.changed[over[axes][group.flow]]
    along = _changed_rows(flows.transfers, flows.changed)
    for index, row in flows.pairs.items():
        if row in along:
            told = flows.changed[along[row]]
            yield index, told
            yield classes.next_stage[index][0], told


def _changed_rows(loads: Sequence[GroupLoads], changed: Mapping[int, str]) -> Mapping[int, int]:
    """Rows that load changed links, each with the first of them."""
    first_links: dict[int, int] = {}
    for load in loads:
        entries = np.flatnonzero(np.isin(load.links, list(changed)))
        rows = np.searchsorted(load.offsets, entries, side="right") - 1
        for row, link in zip(rows.tolist(), load.links[entries].tolist(), strict=True):
            first_links[row] = min(link, first_links.get(row, link))
    return first_links
