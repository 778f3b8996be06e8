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
from itertools import accumulate, cycle, pairwise

import numpy as np
import simpy
from numpy.typing import NDArray

from simcluster.cluster import SCALE, ResourceShare
from simcluster.engine.linking import PARTS, Segments
from simcluster.engine.timing import SlowedSegments

Ints = NDArray[np.int64]


Rates = tuple[int, int, int]
"""Millionths at which each of the parts of a kernel goes on."""


def rates(count: int, units: int, memory: int) -> Rates:
    """What is left beside ``count`` operations that take these shares in all, in millionths."""
    least = SCALE // (count + 1)
    return max(SCALE - units, least), max(SCALE - memory, least), SCALE


FULL = rates(0, 0, 0)
"""Nothing beside."""

Ends = list[int]
"""When the parts of a segment end, counted from its start at unchanged rates, after a zero."""


class Segment:
    """Kernels that run one after another: nanoseconds [kernels, ``PARTS``], and their ends at given rates."""

    __slots__ = ("_ends", "work")

    def __init__(self, parts: Ints) -> None:
        self.work: list[int] = parts.ravel().tolist()
        self._ends: dict[Rates, Ends] = {}

    def ends(self, rates: Rates) -> Ends:
        """When every part ends that begins at these rates."""
        ends = self._ends.get(rates)
        if ends is None:
            # Integers of Python: millionths of nanoseconds would overflow 64 bits after three hours.
            taken = (-(-work * SCALE // rate) for work, rate in zip(self.work, cycle(rates)))
            ends = self._ends[rates] = list(accumulate(taken, initial=0))
        return ends


Section = tuple[int, int, Ends]
"""From which part on, and the base time to which the ends count, until the next section."""


class Pace:
    """The rate of one class's kernels: what is under way beside them, and the segment that runs.

    ``stretched`` has, of every segment that was ever slowed, its entry and its sections.
    """

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.stretched: list[tuple[int, Segment, list[Section]]] = []
        self._count = self._units = self._memory = 0
        self._rates = FULL
        self._segment: Segment | None = None
        self._first: Section = (0, 0, [0])
        self._later: list[Section] = []
        self._slowed = False
        self._entry = self._since = self._left = 0
        self._done: simpy.Event | None = None

    # -- communication ----------------------------------------------------------------------------------

    def begin(self, taken: ResourceShare) -> None:
        """Something begins that takes this much."""
        self._change(1, taken, int(self.env.now))

    def finish(self, taken: ResourceShare) -> None:
        """It is over."""
        self._change(-1, taken, int(self.env.now))

    def _change(self, sign: int, taken: ResourceShare, time: int) -> None:
        self._count += sign
        self._units += sign * taken.units
        self._memory += sign * taken.memory
        now = rates(self._count, self._units, self._memory)
        if now != self._rates:
            before, self._rates = self._rates, now
            if self._segment is not None:
                self._turn(self._segment, before, time)

    # -- kernels ----------------------------------------------------------------------------------------

    def start(self, entry: int, segment: Segment) -> simpy.Event:
        """Starts a segment; the event is its end, at which ``stop`` must be called."""
        self._segment, self._entry = segment, entry
        self._first = 0, int(self.env.now), segment.ends(self._rates)
        self._slowed = self._rates != FULL
        self._done = self.env.timeout(self._first[2][-1])
        return self._done

    def stop(self) -> None:
        """The segment is over."""
        if self._segment is not None and (self._slowed or self._later):
            self.stretched.append((self._entry, self._segment, [self._first, *self._later]))
            self._later = []
        self._segment = self._done = None

    def _turn(self, segment: Segment, before: Rates, now: int) -> None:
        """Goes on at the new rates from now."""
        first, base, ends = self._later[-1] if self._later else self._first
        end = base + ends[-1]
        part = max(first, bisect_right(ends, now - base) - 1)
        if part >= len(segment.work):
            return  # over, at this very instant
        if part > first or not self._later:
            self._since, self._left = base + ends[part], segment.work[part] * SCALE
        self._left -= before[part % PARTS] * (now - self._since)
        self._since = now
        ends = segment.ends(self._rates)
        base = now - (-self._left // self._rates[part % PARTS]) - ends[part + 1]
        if part == first and self._later:
            self._later.pop()
        self._later.append((part, base, ends))
        if self._done is not None and base + ends[-1] != end:
            timeout, self._done = self._done, self.env.timeout(base + ends[-1] - now)
            self._done.callbacks, timeout.callbacks = timeout.callbacks, self._done.callbacks


def slowed_segments(pace: Pace) -> SlowedSegments:
    """The segments that were slowed, and when their kernels ended."""
    entries, counts, pieces, bases, taken = [], [], [], [], []
    columns: dict[int, Ints] = {}
    for entry, segment, sections in pace.stretched:
        entries.append(entry)
        counts.append(len(segment.work) // PARTS)
        following = (*(first for first, _, _ in sections[1:]), len(segment.work))
        for (first, base, known), last in zip(sections, following, strict=True):
            # A kernel is over with its last part.
            over = slice(first // PARTS, last // PARTS)
            ends = columns.get(id(known))
            if ends is None:
                ends = columns[id(known)] = np.array(known[PARTS::PARTS], dtype=np.int64)
            pieces.append(ends[over])
            bases.append(base)
            taken.append(over.stop - over.start)
    which, sizes, since, spans = (
        np.array(column, dtype=np.int64) for column in (entries, counts, bases, taken)
    )
    ended = np.concatenate([np.zeros(0, dtype=np.int64), *pieces]) + np.repeat(since, spans)
    return SlowedSegments(which, np.cumsum(sizes) - sizes, sizes, ended)


def segments_of(segments: Segments, kernels: Ints) -> list[Segment | None]:
    """By entry of a stream of kernels, whose parts ``kernels`` are: its segment; None where it only waits."""
    made = [Segment(kernels[first:end]) for first, end in pairwise(segments.first.tolist())]
    return [*map([*made, None].__getitem__, segments.which.tolist())]
