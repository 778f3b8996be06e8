"""What the engine hands back: when every entry of every class was ready, started and ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.linking import ClassProgram, TimedCode
from simcluster.engine.pricing import ManyClasses, PricedGroup
from simcluster.trace import Table

Ints = NDArray[np.int64]

MOST_KEPT = 2**22
"""Entries of the streams of classes up to which these are kept, once each was looked at: 100 MB."""


@dataclass(frozen=True)
class ClassTiming:
    """What one class did: its linked entries, and per stream when each was ready, started and ended.

    The ends of communication entries are results: ``linked`` has what they take alone. ``stretched`` has
    entry, start and end of every kernel of the segments that communication slowed, by entry, in their order.
    """

    linked: ClassProgram
    codes: Mapping[int, TimedCode]
    starts: Sequence[Ints]
    arrivals: Sequence[Ints]
    ends: Sequence[Ints]
    stretched: Table


@dataclass(frozen=True, slots=True)
class SlowedSegments:
    """Segments of a class that communication slowed: their ``entries`` of the compute stream, and one after
    the other the ends of the kernels of each, so many as ``sizes`` says.
    """

    entries: Ints
    sizes: Ints
    kernel_ends: Ints

    def table(self, starts: Ints) -> Table:
        """Entry, start and end of every kernel, of the ``starts`` of all entries of the stream."""
        begun = np.empty_like(self.kernel_ends)
        begun[1:] = self.kernel_ends[:-1]
        begun[np.cumsum(self.sizes) - self.sizes] = starts[self.entries]
        return Table({"entry": np.repeat(self.entries, self.sizes), "start": begun, "end": self.kernel_ends})


NONE_SLOWED = SlowedSegments(*np.zeros((3, 0), dtype=np.int64))
"""Nothing is slowed."""


@dataclass(frozen=True)
class GroupTiming:
    """What the classes of a group did: by stream the times [entries, classes] of its entries.

    Kernels are ready when they start. ``slowed`` has the segments of those classes that have any.
    """

    group: PricedGroup
    starts: Sequence[Ints]
    arrivals: Sequence[Ints]
    ends: Sequence[Ints]
    slowed: Mapping[int, SlowedSegments]

    def of_class(self, column: int) -> ClassTiming:
        """What one of them did."""
        priced, compute = self.group.program(column), self.group.part.compute
        starts, arrivals, ends = (
            [times[:, column] for times in streams] for streams in (self.starts, self.arrivals, self.ends)
        )
        stretched = self.slowed.get(column, NONE_SLOWED).table(starts[compute])
        return ClassTiming(priced.linked, priced.codes, starts, arrivals, ends, stretched)


@dataclass(frozen=True)
class Timing:
    """What all classes did, the time at which the last one ended (ns), and the number of entries run.

    ``num_flows`` counts what was carried over shared links, ``num_solves`` how often rates were worked out
    anew where flows shared one.
    """

    groups: Sequence[GroupTiming]
    end: int
    num_events: int
    num_flows: int = 0
    num_solves: int = 0

    @cached_property
    def classes(self) -> Sequence[ClassTiming]:
        """What every class did, made when it is asked for."""
        return _Classes(self.groups, self.num_events <= MOST_KEPT)

    @property
    def many(self) -> bool:
        """Whether there are many classes beside each other: their tables would be very large."""
        return any(isinstance(timing.group, ManyClasses) for timing in self.groups)


class _Classes(Sequence[ClassTiming]):
    def __init__(self, groups: Sequence[GroupTiming], keep: bool) -> None:
        self._groups, self._keep = groups, keep
        self._places = {
            index: (group, column) for group in groups for column, index in enumerate(group.group.indices)
        }
        self._kept: dict[int, ClassTiming] = {}

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> ClassTiming: ...
    @overload
    def __getitem__(self, index: slice) -> list[ClassTiming]: ...
    def __getitem__(self, index: int | slice) -> ClassTiming | list[ClassTiming]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        if number in self._kept:
            return self._kept[number]
        group, column = self._places[number]
        timing = group.of_class(column)
        if self._keep:
            self._kept[number] = timing
        return timing
