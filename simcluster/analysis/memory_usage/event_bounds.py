"""Bounds on when the events of classes that run one part happen, in ticks of its kernels, valid for all.

The kernels of a compute stream run one after another in every class. Kernel q starts at tick 2q and ends at
tick 2q + 1; an event of another stream lies between two ticks that the waits around it give, the same for
every class, or closer ones if the times of all classes agree to them.
"""

from __future__ import annotations

import numpy as np

from simcluster.analysis.timeline import EventIndex
from simcluster.engine import NOTHING, GroupTiming
from simcluster.number_arrays import Ints

EVERY = 16
"""Entries of the compute stream between two looks at which events are over."""

LOOSE = 128
"""Ticks between the bounds of an event from which on its time is looked at."""


def find_event_bounds(events: EventIndex, timing: GroupTiming) -> tuple[Ints, Ints]:
    """By event a tick not after it and one not before it, whichever class of a group it is of."""
    part = events.part
    kernels = part.kernels
    others = [part.entries(number) for number in range(len(part.streams)) if number != part.compute]
    # The kernels before every entry of the compute stream, and after it.
    after = np.cumsum(np.diff(part.segments.first)[part.segments.segment_of])
    before = np.append(0, after[:-1])[: len(after)]
    earliest = np.full(part.num_entries, -1, dtype=np.int64)
    latest = np.full(part.num_entries, 2 * int(after[-1]) if len(after) else 0, dtype=np.int64)
    earliest[kernels], latest[kernels] = 2 * after - 1, 2 * before
    waiting, awaited = np.repeat(np.arange(part.num_entries), np.diff(part.first_wait)), part.awaited
    while True:
        known = earliest.copy(), latest.copy()
        np.maximum.at(earliest, waiting, earliest[awaited])
        np.minimum.at(latest, awaited, latest[waiting])
        for own in others:
            np.maximum.accumulate(earliest[own], out=earliest[own])
            latest[own] = np.minimum.accumulate(latest[own][::-1])[::-1]
        earliest[kernels], latest[kernels] = 2 * after - 1, 2 * before
        if all(map(np.array_equal, known, (earliest, latest))):
            break
    _tighten(timing, earliest, latest, after, kernels, others)
    # An entry is ready when the one before it and those it waits for are over: no later than these can be.
    over = latest.copy()
    over[kernels] = 2 * after - 1
    ready = np.append(-1, over[:-1])[: len(over)]
    ready[[own.start for own in others if own.start < own.stop]] = -1
    np.maximum.at(ready, waiting, over[awaited])
    ready = np.minimum(ready, latest)
    start = latest[events.entry] + 2 * events.place_in_entry
    lows, highs = [], []
    for late, tick in ((latest, start), (latest, start + 1), (ready, start)):
        lows.append(np.where(events.kernel == NOTHING, earliest[events.entry], tick))
        highs.append(np.where(events.kernel == NOTHING, late[events.entry], tick))
    return np.concatenate([*lows, [-1]]), np.concatenate([*highs, [-1]])


def _tighten(
    timing: GroupTiming, earliest: Ints, latest: Ints, after: Ints, kernels: slice, others: list[slice]
) -> None:
    """Lowers the upper bounds of what no kernel waits for soon, by looking at the times."""
    now = timing.ends(np.arange(kernels.start, kernels.stop, EVERY))
    for own in others:
        index = 0
        for entry in (own.start + np.flatnonzero(latest[own] - earliest[own] > LOOSE)).tolist():
            over = timing.ends(np.array([entry]))[0]
            while index < len(now) and (now[index] < over).any():
                index += 1
            if index < len(now):
                latest[entry] = min(int(latest[entry]), 2 * int(after[index * EVERY]) - 1)
