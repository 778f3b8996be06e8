"""The events of a run: what is to happen when, in the order in which it was asked for; a heap."""

from __future__ import annotations

from typing import Any

import numpy as np

from simcluster.engine.compiled.arrays import FIRST, NEVER, TOO_LATE, Arrays
from simcluster.engine.compiled.compiling import compiled

_KINDS: Any = np.arange(7)  # plain integers would be types of their own
GO_ON, FLOW_ENDS, SEGMENT_ENDS, CHANGE, TRAFFIC_BEGINS, TRAFFIC_ENDS, ROUND_ENDS = _KINDS
"""Kinds of events: of a stream, a flow, a pace, a change of capacity, background traffic, a workload."""


@compiled
def _push(r: Arrays, place: int, time: int, order: int, event: int) -> None:
    """Puts an event into a free place that has nothing below, or above that."""
    heap = r.heap
    while place:
        above = (place - 1) >> 2
        row = heap[above]
        if row.time < time or (row.time == time and row.order < order):
            break
        heap[place] = row
        place = above
    heap[place].time, heap[place].order, heap[place].event = time, order, event


@compiled
def _before(r: Arrays, place: int, other: int) -> int:
    """1 if one event comes before another, else 0: as likely as not, so it is no branch."""
    one, two = r.heap[place], r.heap[other]
    return (one.time < two.time) | ((one.time == two.time) & (one.order < two.order))


@compiled
def drop_first(r: Arrays) -> None:
    """Takes the earliest event out; read it before."""
    heap, count = r.heap, r.totals[0].heap - 1
    time, order, event = heap[count].time, heap[count].order, heap[count].event
    heap[count].time = heap[count].order = NEVER
    place, below = FIRST, FIRST + 1
    # The free place goes all the way down; the last event most likely stays there.
    while below < count:
        one, two = below + _before(r, below + 1, below), below + 2 + _before(r, below + 3, below + 2)
        below = one + (two - one) * _before(r, two, one)
        heap[place] = heap[below]
        place, below = below, 4 * below + 1
    _push(r, place, time, order, event)
    r.totals[0].heap = count


@compiled
def is_stale(r: Arrays, order: int, event: int) -> bool:
    """Whether an event was replaced by another."""
    kind, whom = event & 7, event >> 3
    if kind == FLOW_ENDS:
        return r.slots[whom].ends != order
    if kind == SEGMENT_ENDS:
        return r.paces[whom].order != order
    return False


@compiled
def drop_stale(r: Arrays) -> int:
    """Makes room in the heap; says how many events are left."""
    count = FIRST
    kept = r.totals[0].heap
    for place in range(kept):
        time, order, event = r.heap[place].time, r.heap[place].order, r.heap[place].event
        if is_stale(r, order, event):
            continue
        # Rows move up to or before their place: nothing unread is overwritten.
        _push(r, count, time, order, event)
        count += 1
    for place in range(count, kept):
        r.heap[place].time = r.heap[place].order = NEVER
    r.totals[0].heap = count
    return count


@compiled
def time_behind(r: Arrays, time: int, span: int) -> int:
    """The time that is so long behind another; the run fails if that is beyond 64 bits."""
    # Sums that overflow are undefined: they must not be made.
    if span < 0 or span > NEVER - time:
        r.totals[0].failed = TOO_LATE
        return time
    return time + span


@compiled
def add_event(r: Arrays, time: int, kind: int, whom: int) -> int:
    """Adds an event, and says which one it is."""
    order = r.totals[0].order
    count = r.totals[0].heap
    if count == len(r.heap) - 4:
        count = drop_stale(r)
    _push(r, count, time, order, whom * 8 + kind)
    r.totals[0].heap = count + 1
    r.totals[0].order = order + 1
    return order


@compiled
def wake(r: Arrays, stream: int) -> None:
    """Lets a stream go on at this instant, before those let go earlier."""
    count = r.totals[0].stack
    r.stack[count] = stream
    r.totals[0].stack = count + 1
