"""Bounds on when the events of classes that run one part happen, in ticks of its kernels, valid for all.

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
from simcluster.engine import NOTHING, GroupTiming, LinkedPart

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

    def of(self, part: LinkedPart, moments: EventIndex) -> tuple[Ints, Ints]:
        """The two ticks of every moment."""
        low, high = (np.full(moments.zero + 1, -1, dtype=np.int64) for _ in range(2))
        numbers = {stream.name: number for number, stream in enumerate(part.untimed.streams)}
        for code, executions in moments.executions.items():
            timed = part.codes[code]
            shape = (3, len(executions), moments.instructions[code])
            block = slice(moments.first[code], moments.first[code] + int(np.prod(shape)))
            lows, highs = low[block].reshape(shape), high[block].reshape(shape)
            for local, name in enumerate(timed.streams):
                number = numbers[name]
                indices = np.flatnonzero(timed.stream_of == local)
                own = timed.entry[indices]
                entries = part.untimed.bases[executions, number][:, None] + own[None, :]
                if number == part.compute:
                    # Kernels of one entry follow one another.
                    nth = np.arange(len(indices)) - np.searchsorted(own, own)
                    start = 2 * (self.before[entries] + nth[None, :])
                    for ticks in (lows, highs):
                        ticks[0][:, indices] = ticks[2][:, indices] = start
                        ticks[1][:, indices] = start + 1
                else:
                    lows[:, :, indices] = self.earliest[number][entries][None]
                    highs[:2, :, indices] = self.latest[number][entries][None]
                    highs[2][:, indices] = self.ready[number][entries]
        return low, high


def bounds(timing: GroupTiming) -> EventBounds:
    """The bounds of all entries of the part that the classes of a group run."""
    part = timing.group.part
    streams, compute = part.untimed.streams, part.compute
    segments = part.segments
    count = np.append(np.diff(segments.first), 0)[segments.which]
    after = np.cumsum(count)
    before = after - count
    last = 2 * int(after[-1]) if len(after) else 0
    earliest = [np.full(len(stream), -1, dtype=np.int64) for stream in streams]
    latest = [np.full(len(stream), last, dtype=np.int64) for stream in streams]
    earliest[compute], latest[compute] = 2 * after - 1, 2 * before
    waits = [
        (number, other, waiting, stream.wait_position[waiting] - 1)
        for number, stream in enumerate(streams)
        for other in np.unique(stream.wait_stream).tolist()
        if other != NOTHING
        for waiting in [np.flatnonzero(stream.wait_stream == other)]
    ]
    changed = True
    while changed:
        changed = False
        for number, other, waiting, awaited in waits:
            if number != compute:
                raised = earliest[number].copy()
                np.maximum.at(raised, waiting, earliest[other][awaited])
                raised = np.maximum.accumulate(raised)
                changed |= not np.array_equal(raised, earliest[number])
                earliest[number] = raised
            if other != compute:
                raised = latest[other].copy()
                np.minimum.at(raised, awaited, latest[number][waiting])
                raised = np.minimum.accumulate(raised[::-1])[::-1]
                changed |= not np.array_equal(raised, latest[other])
                latest[other] = raised
    _tighten(timing, earliest, latest, after)
    # An entry is ready when the one before it and the one it waits for are over: no later than these can be.
    over = [2 * after - 1 if number == compute else latest[number] for number in range(len(streams))]
    ready = [np.concatenate([np.full(1, -1, dtype=np.int64), ended[:-1]])[: len(ended)] for ended in over]
    for number, other, waiting, awaited in waits:
        ready[number][waiting] = np.maximum(ready[number][waiting], over[other][awaited])
    ready = [np.minimum(*pair) for pair in zip(ready, latest, strict=True)]
    return EventBounds(earliest, ready, latest, before, after)


def _tighten(timing: GroupTiming, earliest: Sequence[Ints], latest: Sequence[Ints], after: Ints) -> None:
    """Lowers the upper bounds of what no kernel waits for soon, by looking at the times."""
    compute = timing.group.part.compute
    loose: Mapping[int, deque[int]] = {
        number: deque(np.flatnonzero(late - early > LOOSE).tolist())
        for number, (early, late) in enumerate(zip(earliest, latest, strict=True))
        if number != compute
    }
    if not any(loose.values()):
        return
    for index in range(0, len(after), EVERY):
        now = timing.ends[compute][index]
        for number, entries in loose.items():
            while entries and (now >= timing.ends[number][entries[0]]).all():
                entry = entries.popleft()
                latest[number][entry] = min(int(latest[number][entry]), 2 * int(after[index]) - 1)
