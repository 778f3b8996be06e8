"""What the engine hands back: when every entry of every class started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.class_program import ClassProgram
from simcluster.engine.pace import segments_of, stretched_times
from simcluster.engine.replayed import replayed, shares_of
from simcluster.engine.segments import Segments
from simcluster.engine.sweep import Swept
from simcluster.engine.timed import TimedCode
from simcluster.program import COMPUTE
from simcluster.trace import Table

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ClassTiming:
    """What one class did: its linked entries, and per stream when each entry started and ended.

    ``arrivals`` has when communication entries were ready to start, and nothing for the compute stream. The
    ends of communication entries are results: ``linked`` has what they take alone. ``stretched`` has entry,
    start and end of every kernel of the segments that communication slowed, by entry, in their order.
    """

    linked: ClassProgram
    codes: Mapping[int, TimedCode]
    starts: Sequence[Ints]
    arrivals: Sequence[Ints]
    ends: Sequence[Ints]
    stretched: Table


@dataclass(frozen=True)
class Timing:
    """What every class did, the time at which the last one ended (ns), and the number of entries run.

    ``num_flows`` counts what was carried over shared links, ``num_solves`` how often rates were worked out
    anew where flows shared one. ``swept`` are the stages beside each other where a sweep timed them:
    ``classes`` are then made from it one by one, when they are asked for.
    """

    classes: Sequence[ClassTiming]
    end: int
    num_events: int
    num_flows: int = 0
    num_solves: int = 0
    swept: Swept | None = None


Coded = Callable[[int, Sequence[int]], Mapping[int, TimedCode]]
"""(class, codes) -> its priced codes."""


@dataclass(frozen=True)
class SweptClasses(Sequence[ClassTiming]):
    """The classes of a sweep, each expanded when it is asked for."""

    swept: Swept
    coded: Coded
    where: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, swept: Swept, coded: Coded) -> SweptClasses:
        """``coded`` prices the codes of one class."""
        places = {
            index: (stage.number, column)
            for stage in swept.stages
            for column, index in enumerate(stage.columns.tolist())
        }
        return cls(swept, coded, [places[index] for index in range(len(places))])

    def __len__(self) -> int:
        return len(self.where)

    @overload
    def __getitem__(self, index: int) -> ClassTiming: ...
    @overload
    def __getitem__(self, index: slice) -> list[ClassTiming]: ...
    def __getitem__(self, index: int | slice) -> ClassTiming | list[ClassTiming]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number, column = self.where[index]
        stage, lanes = self.swept.stages[number], self.swept.lanes[number]
        codes = self.coded(int(stage.columns[column]), list(stage.codes))
        linked = stage.one(column)
        longer = self._longer(number, column)
        ends = [np.zeros(0, dtype=np.int64) if lane.drops else lane.of(column) for lane in lanes]
        for lane in lanes:
            if lane.drops:
                ends[lane.number] = _kernel_ends(linked, lane.number, ends, longer)
        starts, arrivals = [], []
        for lane, stream, ended in zip(lanes, linked.streams, ends, strict=True):
            starts.append(ended - (stream.duration + longer if lane.drops else lane.spent(column)))
            before = np.concatenate([[0], ended[:-1]])[: len(ended)]
            ready = np.maximum(before, _awaited(linked, stream.wait_stream, stream.wait_position, ends))
            arrivals.append(ready if stream.name != COMPUTE else np.zeros(0, dtype=np.int64))
        pace = None
        if longer.any():
            segments, shares = segments_of(Segments.of(linked, codes)), shares_of(stage, column)
            pace = replayed(np.flatnonzero(longer), segments, starts, ends, linked, shares)
        compute = next(lane.number for lane in lanes if lane.drops)
        stretched = stretched_times(pace, starts[compute])
        return ClassTiming(linked, codes, starts, arrivals, ends, stretched)

    def _longer(self, number: int, column: int) -> Ints:
        """How much longer the segments of a class take beside its communication."""
        lane = next(lane for lane in self.swept.lanes[number] if lane.drops)
        longer = np.zeros(lane.length, dtype=np.int64)
        entries, spent, first = self._by_column[number]
        own = slice(first[column], first[column + 1])
        longer[entries[own]] = spent[own]
        return longer

    @cached_property
    def _by_column(self) -> Sequence[tuple[Ints, Ints, Ints]]:
        """By stage the slowed segments and how much longer they take, column after column, each from its
        ``first`` on.
        """
        by_stage = []
        for stage, lanes in zip(self.swept.stages, self.swept.lanes, strict=True):
            longer = next(lane for lane in lanes if lane.drops).longer
            nothing = [np.zeros(0, dtype=np.int64)]
            columns = np.concatenate([*nothing, *(which for which, _ in longer.values())])
            spent = np.concatenate([*nothing, *(more for _, more in longer.values())])
            sizes = [len(which) for which, _ in longer.values()]
            entries = np.repeat(np.array(list(longer), dtype=np.int64), sizes)
            order = np.lexsort((entries, columns))
            first = np.searchsorted(columns[order], np.arange(len(stage.columns) + 1))
            by_stage.append((entries[order], spent[order], first))
        return by_stage


def _awaited(linked: ClassProgram, streams: Ints, positions: Ints, ends: Sequence[Ints]) -> Ints:
    """Per entry when what it waits for has ended; 0 where it waits for nothing."""
    over = np.zeros(len(streams), dtype=np.int64)
    for number in range(len(linked.streams)):
        waiting = np.flatnonzero(streams == number)
        over[waiting] = ends[number][positions[waiting] - 1]
    return over


def _kernel_ends(linked: ClassProgram, number: int, ends: Sequence[Ints], longer: Ints) -> Ints:
    """The ends of a compute stream's entries: ``end = max(end before, awaited) + duration`` as one scan."""
    stream = linked.streams[number]
    duration = stream.duration + longer
    spent = np.cumsum(duration)
    slack = _awaited(linked, stream.wait_stream, stream.wait_position, ends)
    return spent + np.maximum.accumulate(np.maximum(slack - (spent - duration), 0))
