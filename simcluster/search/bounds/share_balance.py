"""Micro-batches of unequal ranks, so that all are done at about the same time."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def shares_by_speed(slowness: Sequence[float], total: int) -> tuple[int, ...]:
    """``total`` micro-batches on ranks that take so many times longer, so that the last is done soonest.

    Every rank has at least one. Of ranks that would be done at the same time the first gets the next.
    """
    counts = [1] * len(slowness)
    ends = [(2 * slow, place) for place, slow in enumerate(slowness)]
    heapq.heapify(ends)
    for _ in range(total - len(slowness)):
        _, place = ends[0]
        counts[place] += 1
        heapq.heapreplace(ends, ((counts[place] + 1) * slowness[place], place))
    return tuple(counts)
