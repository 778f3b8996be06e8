"""Bounds on when the events of a stage happen, in ticks of its kernels, valid for all its classes.

The kernels of a compute stream run one after another in every class. Kernel q starts at tick 2q and ends at
tick 2q + 1; an event of another stream lies between two ticks that the waits around it give, the same for
every class, or closer ones if the times of all classes agree to them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.memory_usage.allocation_log import EventIndex
from simcluster.engine import NOTHING, Lane, kernels

Ints = NDArray[np.int64]

EVERY = 16
"""Entries of the compute stream between two looks at which events are over."""

LOOSE = 128
"""Ticks between the bounds of an event from which on its time is looked at."""


@dataclass(frozen=True)
class EventBounds:
    """Per stream and entry: a tick not after its arrival, one not before it, and one not before its end.

    ``before`` and ``after`` are the kernels of the compute stream before and after each of its entries.
    """

    earliest: Sequence[Ints]
    ready: Sequence[Ints]
    latest: Sequence[Ints]
    before: Ints
    after: Ints

    def of(self, lanes: Sequence[Lane], moments: EventIndex) -> tuple[Ints, Ints]:
        """The two ticks of every moment."""
        stage = lanes[0].stage
        low, high = (np.full(moments.zero + 1, -1, dtype=np.int64) for _ in range(2))
        compute = next(lane.number for lane in lanes if lane.drops)
        for code, executions in moments.executions.items():
            timed = stage.codes[code]
            shape = (3, len(executions), moments.instructions[code])
            block = slice(moments.first[code], moments.first[code] + int(np.prod(shape)))
            lows, highs = low[block].reshape(shape), high[block].reshape(shape)
            for local, name in enumerate(timed.streams):
                number = stage.streams[name]
                indices = np.flatnonzero(timed.stream_of == local)
                entries = stage.linked.bases[executions, number][:, None] + timed.entry[indices][None, :]
                if number == compute:
                    # Kernels of one entry follow one another.
                    nth = np.arange(len(indices)) - np.searchsorted(
                        timed.entry[indices], timed.entry[indices]
                    )
                    start = 2 * (self.before[entries] + nth[None, :])
                    for ticks in (lows, highs):
                        ticks[0][:, indices], ticks[1][:, indices], ticks[2][:, indices] = (
                            start,
                            start + 1,
                            start,
                        )
                else:
                    lows[:, :, indices] = self.earliest[number][entries][None]
                    highs[:2, :, indices] = self.latest[number][entries][None]
                    highs[2][:, indices] = self.ready[number][entries]
        return low, high


def bounds(lanes: Sequence[Lane]) -> EventBounds:
    """The bounds of all entries of a stage."""
    stage = lanes[0].stage
    compute = next(lane.number for lane in lanes if lane.drops)
    count = stage.kernels(compute)
    after = np.cumsum(count)
    before = after - count
    last = 2 * int(after[-1]) if len(after) else 0
    waits = [
        (np.array(lane.waits, dtype=np.int64), np.array(lane.positions, dtype=np.int64)) for lane in lanes
    ]
    earliest = [np.full(lane.length, -1, dtype=np.int64) for lane in lanes]
    latest = [np.full(lane.length, last, dtype=np.int64) for lane in lanes]
    earliest[compute], latest[compute] = 2 * after - 1, 2 * before
    changed = True
    while changed:
        changed = False
        for lane, (streams, positions) in zip(lanes, waits, strict=True):
            for number in set(lane.waits) - {NOTHING}:
                waiting = np.flatnonzero(streams == number)
                if lane.number != compute:
                    raised = earliest[lane.number].copy()
                    np.maximum.at(raised, waiting, earliest[number][positions[waiting] - 1])
                    raised = np.maximum.accumulate(raised)
                    changed |= not np.array_equal(raised, earliest[lane.number])
                    earliest[lane.number] = raised
                if number != compute:
                    raised = latest[number].copy()
                    np.minimum.at(raised, positions[waiting] - 1, latest[lane.number][waiting])
                    raised = np.minimum.accumulate(raised[::-1])[::-1]
                    changed |= not np.array_equal(raised, latest[number])
                    latest[number] = raised
    _tighten(lanes, earliest, latest, after)
    # An entry is ready when the one before it and the one it waits for are over: no later than these can be.
    over = [2 * after - 1 if lane.drops else latest[lane.number] for lane in lanes]
    ready = []
    for lane, (streams, positions) in zip(lanes, waits, strict=True):
        raised = np.concatenate([np.full(1, -1, dtype=np.int64), over[lane.number][:-1]])[: lane.length]
        for number in set(lane.waits) - {NOTHING}:
            waiting = np.flatnonzero(streams == number)
            raised[waiting] = np.maximum(raised[waiting], over[number][positions[waiting] - 1])
        ready.append(np.minimum(raised, latest[lane.number]))
    return EventBounds(earliest, ready, latest, before, after)


def _tighten(lanes: Sequence[Lane], earliest: Sequence[Ints], latest: Sequence[Ints], after: Ints) -> None:
    """Lowers the upper bounds of what no kernel waits for soon, by looking at the times."""
    loose: Mapping[int, deque[int]] = {
        lane.number: deque(np.flatnonzero(latest[lane.number] - earliest[lane.number] > LOOSE).tolist())
        for lane in lanes
        if not lane.drops
    }
    if not any(loose.values()):
        return
    for index, now in kernels(lanes):
        if index % EVERY:
            continue
        for number, entries in loose.items():
            while entries:
                end = lanes[number].ends[entries[0]]
                assert end is not None
                if not (now >= end).all():
                    break
                entry = entries.popleft()
                latest[number][entry] = min(int(latest[number][entry]), 2 * int(after[index]) - 1)
