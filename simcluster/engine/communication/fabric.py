"""The shared links as the engine sees them: capacities, load vectors, and how meetings move their bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Floats, Ints, offsets
from simcluster.program import Instruction

NEVER = 2**62
"""A time (ns) that does not come."""

GRAIN = 2.0**-20
"""Loads are multiples of this, so that their sums are exact in float64 in any order."""

MOST = 2.0**33
"""Below this, sums of multiples of ``GRAIN`` fit the 53 bits of a float64."""


class FlowPhase(NamedTuple):
    """Bytes that flow with one load vector: those on a link with load 1, at most ``cap`` bytes/s of them."""

    vector: int
    num_bytes: float
    cap: float


@dataclass(frozen=True, slots=True)
class Late:
    """Between ``begin`` and ``end`` (None: for good) a transfer's latency is ``delay`` longer; all in ns."""

    begin: int
    end: int | None
    delay: int

    @property
    def for_good(self) -> bool:
        """Whether it is so in the whole run."""
        return self.begin == 0 and self.end is None

    def holds(self, time: int) -> bool:
        """Whether links are late at a time."""
        return self.begin <= time and (self.end is None or time < self.end)


@dataclass(frozen=True, slots=True)
class Transfer:
    """A collective or transfer: nanoseconds in which no link is loaded, then phases one after another.

    What waits while links are ``late`` waits longer: for as much of its latency as falls into that time.
    """

    latency_ns: int
    phases: tuple[FlowPhase, ...]
    late: tuple[Late, ...] = ()

    def latency(self, now: int, *, for_good: bool = False) -> int:
        """Nanoseconds until bytes flow, for what begins ``now``; ``for_good``: without what is for a time.

        The waits of a transfer are spread evenly over its latency, and those on late links take longer. So
        what begins later never flows earlier, as it might if the moment of its beginning decided alone.
        """
        if not self.late:
            return self.latency_ns
        lates = [late for late in self.late if late.for_good or not for_good]
        left: Fraction | int = 1
        at = now
        moments = {time for late in lates for time in (late.begin, late.end) if time and time > now}
        for moment in (*sorted(moments), NEVER):
            whole = self.latency_ns + sum(late.delay for late in lates if late.holds(at))
            over = at + left * whole
            if over <= moment:
                break
            left, at = left - Fraction(moment - at, whole), moment
        return round(over) - now


Moves = int | Transfer
"""What a communication entry takes: nanoseconds, or bytes over shared links."""


@dataclass(frozen=True)
class Vectors:
    """Load vectors, row ``v`` the entries ``offsets[v]:offsets[v + 1]`` of ``links`` and ``loads``.

    A load is what one byte of a flow puts on one link: 1 on the flow's slowest link; where a flow stands
    for many equal ones, the sum of all of them on one link. Raises ValueError for loads that are not positive
    multiples of ``GRAIN`` below ``MOST`` and for a row that names a link twice.
    """

    offsets: Ints
    links: Ints
    loads: Floats

    def __post_init__(self) -> None:
        exact = self.loads / GRAIN == np.rint(self.loads / GRAIN)
        if not (exact & (self.loads > 0) & (self.loads < MOST)).all():
            raise ValueError("a load must be a positive multiple of 2^-20 below 2^33")
        if self.links.size and self.links.min() < 0:
            raise ValueError("a link number must not be negative")
        row = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        pairs = row * (int(self.links.max(initial=0)) + 1) + self.links
        if len(np.unique(pairs)) < len(pairs):
            raise ValueError("a vector names a link twice")

    @classmethod
    def of(cls, rows: Sequence[Sequence[tuple[int, float]]]) -> Vectors:
        """Vectors from (link, load) pairs per row."""
        pairs = [pair for row in rows for pair in row]
        return cls(
            offsets([len(row) for row in rows]),
            np.array([link for link, _ in pairs], dtype=np.int64),
            np.array([load for _, load in pairs], dtype=np.float64),
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1


class CapacityChange(NamedTuple):
    """From ``time`` (ns) on, ``link`` carries ``capacity`` bytes/s."""

    time: int
    link: int
    capacity: float


@dataclass(frozen=True, slots=True)
class Background:
    """Traffic of others: wants ``rate`` bytes/s of a vector from ``begin`` to ``end`` (ns), or for good."""

    vector: int
    rate: float
    begin: int = 0
    end: int | None = None


@dataclass(frozen=True)
class Links:
    """Links, numbered as in ``vectors``: ``capacity`` [links] in bytes/s, what changes, and what else flows.

    A link may stand for many equal ones: then it has the capacity of one of them. Raises ValueError for what
    does not fit together.
    """

    capacity: Floats
    vectors: Vectors
    changes: tuple[CapacityChange, ...] = ()
    background: tuple[Background, ...] = ()

    def __post_init__(self) -> None:
        if not (np.isfinite(self.capacity) & (self.capacity >= 0)).all():
            raise ValueError("the capacity of a link must be finite and not negative")
        if self.vectors.links.size and self.vectors.links.max() >= len(self.capacity):
            raise ValueError(f"a vector names link {self.vectors.links.max()} of {len(self.capacity)}")
        for change in self.changes:
            if not (0 <= change.link < len(self.capacity) and 0 <= change.capacity < np.inf):
                raise ValueError(f"no such change of capacity: {change}")
        for flow in self.background:
            lasts = flow.begin >= 0 and (flow.end is None or flow.begin < flow.end)
            if not (0 <= flow.vector < len(self.vectors) and 0 < flow.rate < np.inf and lasts):
                raise ValueError(f"no such background flow: {flow}")

    @cached_property
    def rates(self) -> list[float]:
        """By vector the bytes/s of a flow that shares no link."""
        vectors = self.vectors
        rates, rows = np.full(len(vectors), np.inf), np.arange(len(vectors))
        shares = self.capacity[vectors.links] / vectors.loads
        np.minimum.at(rates, np.repeat(rows, np.diff(vectors.offsets)), shares)
        return list(rates.tolist())

    def times(self, transfer: Transfer) -> list[int]:
        """Nanoseconds until each phase of a transfer begins, and to its end, if it meets no other.

        A phase that never ends takes ``NEVER``.
        """
        now = transfer.latency(0, for_good=True)
        times = [now]
        for phase in transfer.phases:
            rate = min(phase.cap, self.rates[phase.vector])
            now = min(NEVER, now + round(phase.num_bytes / rate * 1e9)) if rate else NEVER
            times.append(now)
        return times

    def alone(self, transfer: Transfer) -> int:
        """Nanoseconds of a transfer that nothing changes and none meets."""
        return max(1, self.times(transfer)[-1])


NO_LINKS = Links(np.zeros(0), Vectors.of([]))
"""Nothing is shared."""


@dataclass(frozen=True)
class Fabric:
    """Links, and how a class does an instruction on them.

    ``transfer(class, instruction)`` is the same for all classes that meet in a collective or transfer; None
    means that it loads none of these links and takes its priced time.
    """

    links: Links
    transfer: Callable[[int, Instruction], Transfer | None]
