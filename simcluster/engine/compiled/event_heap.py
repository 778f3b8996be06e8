"""Binary heaps of rows (time, order, item): the earliest first, equal times by their order."""

from __future__ import annotations

from simcluster.engine.compiled.arrays import Records
from simcluster.engine.compiled.compiling import compiled


@compiled
def push_row(heap: Records, count: int, time: int, order: int, item: int) -> None:
    """Adds a row to a heap of ``count`` rows."""
    place = count
    while place:
        above = (place - 1) >> 1
        row = heap[above]
        if row.time < time or (row.time == time and row.order < order):
            break
        heap[place] = row
        place = above
    heap[place].time, heap[place].order, heap[place].item = time, order, item


@compiled
def _before(heap: Records, place: int, other: int) -> bool:
    """Whether one row comes before another."""
    one, two = heap[place], heap[other]
    return one.time < two.time or (one.time == two.time and one.order < two.order)


@compiled
def drop_first(heap: Records, count: int) -> None:
    """Takes the earliest of ``count`` rows out; read it before."""
    last = heap[count - 1]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= count - 1:
            break
        if below + 1 < count - 1 and _before(heap, below + 1, below):
            below += 1
        if _before(heap, count - 1, below):
            break
        heap[place] = heap[below]
        place = below
    heap[place] = last
