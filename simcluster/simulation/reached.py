"""Which classes a changed device reaches, and how: why ranks that run the same are several classes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from simcluster.cluster import NOMINAL, Cluster
from simcluster.program import Classes


def reached(classes: Classes, cluster: Cluster) -> Mapping[int, str]:
    """Class -> its own device's change, or the class nearer to a changed device that it meets, and where.

    Classes that no changed device can delay are absent: without changes, all of them.
    """
    speeds = [cluster.speed(rank) for rank in classes.representatives]
    why = {index: f"its device: {speed}" for index, speed in enumerate(speeds) if speed != NOMINAL}
    if not why:
        return {}
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
    classes: Classes, index: int, every: list[tuple[str, ...]], seen: set[int]
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
