"""How fast the kernels of a device go on beside its communication, and when they therefore end.

Beside n collectives and transfers a kernel has what these leave it, but never less than an equal share: a
part bound by the units goes on at max(1 - sum of their shares of the units, 1 / (n + 1)), a part bound by
memory likewise by their shares of its bandwidth, and launches and dispatch go on as ever. Units are held from
start to end: the kernels of communication are there also while no byte flows. Every kernel takes whole
nanoseconds: it ends at the first by which all of it is done. Work is counted in millionths of nanoseconds, so
the progress at a rate is an integer, and an end does not depend on how often rates were looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, islice, pairwise

import numpy as np
import simpy

from simcluster.cluster import SCALE, ResourceShare
from simcluster.engine.linking import PARTS, Segments
from simcluster.engine.timing import SlowedSegments
from simcluster.number_arrays import Ints

Segment = Sequence[int]
"""Kernels that run one after another: nanoseconds of their parts, ``PARTS`` of each."""

Rates = tuple[int, int, int]
"""Millionths at which each of the parts of a kernel goes on."""


def rates(count: int, units: int, memory: int) -> Rates:
    """What is left beside ``count`` operations that take these shares in all, in millionths."""
    least = SCALE // (count + 1)
    return max(SCALE - units, least), max(SCALE - memory, least), SCALE


FULL = rates(0, 0, 0)
"""Nothing beside."""


def part_ends(segment: Segment, first: int, time: int, rates: Rates) -> list[int]:
    """When the parts from the ``first`` on end, which begins at a time, at these rates."""
    # Integers of Python: millionths of nanoseconds would overflow 64 bits after three hours.
    taken = (
        -(-work * SCALE // rates[number % PARTS])
        for number, work in enumerate(islice(segment, first, None), first)
    )
    return list(accumulate(taken, initial=time))[1:]


class Pace:
    """The rate of one class's kernels: what is under way beside them, and the segment that runs.

    ``stretched`` has, of every segment that was ever slowed, its entry and the ends of its parts.
    """

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.stretched: list[tuple[int, list[int]]] = []
        self._count = self._units = self._memory = 0
        self._rates = FULL
        self._segment: Segment | None = None
        self._ends: list[int] | None = None
        self._entry = self._start = self._part = self._since = self._left = 0
        self._done: simpy.Event | None = None

    def begin(self, taken: ResourceShare) -> None:
        """Something begins that takes this much."""
        self._change(1, taken)

    def finish(self, taken: ResourceShare) -> None:
        """It is over."""
        self._change(-1, taken)

    def _change(self, sign: int, taken: ResourceShare) -> None:
        self._count += sign
        self._units += sign * taken.units
        self._memory += sign * taken.memory
        now = rates(self._count, self._units, self._memory)
        if now != self._rates:
            before, self._rates = self._rates, now
            if self._segment is not None:
                self._turn(self._segment, before)

    def start(self, entry: int, segment: Segment) -> simpy.Event:
        """Starts a segment; the event is its end, at which ``stop`` must be called."""
        now = int(self.env.now)
        self._segment, self._entry, self._start, self._part = segment, entry, now, -1
        slowed = self._rates != FULL
        self._ends = part_ends(segment, 0, now, self._rates) if slowed else None
        self._done = self.env.timeout(self._ends[-1] - now if self._ends else sum(segment))
        return self._done

    def stop(self) -> None:
        """The segment is over."""
        if self._ends is not None:
            self.stretched.append((self._entry, self._ends))
        self._segment = self._done = None

    def _turn(self, segment: Segment, before: Rates) -> None:
        """Goes on at the new rates from now."""
        now = int(self.env.now)
        ends = self._ends or part_ends(segment, 0, self._start, before)
        end = ends[-1]
        if end <= now:
            return  # over, at this very instant
        part = bisect_right(ends, now)
        if part > self._part:
            self._part, self._left = part, segment[part] * SCALE
            self._since = ends[part - 1] if part else self._start
        self._left -= before[part % PARTS] * (now - self._since)
        self._since = now
        ends[part] = now - (-self._left // self._rates[part % PARTS])
        ends[part + 1 :] = part_ends(segment, part + 1, ends[part], self._rates)
        self._ends = ends
        if self._done is not None and ends[-1] != end:
            timeout, self._done = self._done, self.env.timeout(ends[-1] - now)
            self._done.callbacks, timeout.callbacks = timeout.callbacks, self._done.callbacks


def slowed_segments(pace: Pace) -> SlowedSegments:
    """The segments that were slowed, and when their kernels ended: each with its last part."""
    ended = [np.array(ends[PARTS - 1 :: PARTS], dtype=np.int64) for _, ends in pace.stretched]
    entries = np.array([entry for entry, _ in pace.stretched], dtype=np.int64)
    sizes = np.array([len(ends) for ends in ended], dtype=np.int64)
    first = np.cumsum(sizes) - sizes
    return SlowedSegments(entries, first, sizes, np.concatenate([first[:0], *ended]))


def segments_of(segments: Segments, kernels: Ints) -> list[Segment]:
    """By entry of a stream of kernels, whose parts ``kernels`` are, its segment."""
    made = [kernels[first:end].ravel().tolist() for first, end in pairwise(segments.first.tolist())]
    return [made[number] for number in segments.segment_of.tolist()]
