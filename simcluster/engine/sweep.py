"""The sweep: a Program in time without events, in one max-plus pass in program order (DESIGN 4.9).

Every step of the pass times one entry of one stream for all classes of a stage at once:
``start = max(ready)``, ``end = start + duration``. A rendezvous is a maximum over its members. What a stream
waits for says in which order the entries of different streams are taken; any order that respects it gives the
same times, and they are those of the event-driven engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.deadlock import HEADING, LATE, stuck
from simcluster.engine.lanes import Lane, lanes_of
from simcluster.engine.meetings import meetings
from simcluster.engine.stage import Stage
from simcluster.engine.timed import NOTHING
from simcluster.errors import SimulationError
from simcluster.program import Program, RankClasses

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Swept:
    """All stages with the times of their communication entries, the end of the run, and its entries."""

    stages: Sequence[Stage]
    lanes: Sequence[Sequence[Lane]]
    end: int
    num_entries: int


SELDOM = 64
"""Turns of lanes after which whoever watches is told."""

Watcher = Callable[[int, int], None]
"""Is told from time to time how many entries have ended, and the time (ns) of the last."""


def sweep(program: Program, classes: RankClasses, stages: Sequence[Stage], watch: Watcher) -> Swept:
    """Times all entries of kernels that nothing slows; SimulationError names who waits for whom if the run
    cannot end.

    Raises Uneven if those who meet would not be busy equally long: then the last to arrive decides, and only
    events say who that is.
    """
    return _Sweep(program, classes, stages, watch).run()


def untimed_lanes(program: Program, classes: RankClasses, stages: Sequence[Stage]) -> list[list[Lane]]:
    """The lanes of all stages before anything has been timed."""
    places = meetings(program, classes, stages)
    return [lanes_of(stage, places) for stage in stages]


class Sweep(ABC):
    """A pass over the entries of all lanes."""

    def __init__(
        self, program: Program, classes: RankClasses, stages: Sequence[Stage], watch: Watcher
    ) -> None:
        self.program, self.classes, self.stages, self.watch = program, classes, stages, watch
        self.ended = 0
        self.lanes = untimed_lanes(program, classes, stages)

    def run(self) -> Swept:
        """All times; raises as ``sweep`` does."""
        every = [lane for lanes in self.lanes for lane in lanes]
        for each in every:
            self.add(each)
        turns = 0
        while (lane := self.next()) is not None:
            before, turns = lane.done, turns + 1
            if lane.drops:
                self.kernels(lane)
            else:
                self._transfers(lane)
            if lane.done > before:
                self._wake(lane)
                self.ended += (lane.done - before) * len(lane.stage.columns)
                if not turns % SELDOM:
                    self.watch(self.ended, int(_latest(lane).max()))
        if any(each.done < each.length for each in every):
            raise SimulationError(HEADING, *self._stuck())
        last = max((int(_latest(each).max()) for each in every if each.length), default=0)
        self.watch(self.ended, last)
        return Swept(self.stages, self.lanes, last, self.ended)

    @abstractmethod
    def add(self, lane: Lane) -> None:
        """Keeps a lane in mind that may go on."""

    @abstractmethod
    def next(self) -> Lane | None:
        """A lane that may go on; None if there is none."""

    @abstractmethod
    def kernels(self, lane: Lane) -> None:
        """Some entries of a compute stream; it must be kept in mind if it stops before it has to wait."""

    @abstractmethod
    def end(self, lane: Lane, position: int) -> Ints:
        """When so many entries of a lane have ended; asked once by each who waits for it."""

    @abstractmethod
    def together(self, found: Sequence[tuple[Lane, int]]) -> None:
        """Is told of the entries that met, once they have been timed."""

    def _wake(self, lane: Lane) -> None:
        left = []
        for position, other in lane.waiters:
            if position <= lane.done:
                self.add(other)
            else:
                left.append((position, other))
        lane.waiters = left

    def blocked(self, lane: Lane, other: Lane, position: int) -> bool:
        """Whether a lane must wait for another, which then knows it."""
        if other.done >= position:
            return False
        other.waiters.append((position, lane))
        return True

    def _transfers(self, lane: Lane) -> None:
        """As many entries of a communication stream as can be timed now."""
        if lane.arrived:
            return
        lanes, ends = self.lanes[lane.stage.number], lane.ends
        while lane.done < lane.length:
            index = lane.done
            ready = ends[index - 1] if index else None
            which = lane.waits[index]
            if which != NOTHING:
                other, position = lanes[which], lane.positions[index]
                if self.blocked(lane, other, position):
                    return
                awaited = self.end(other, position)
                ready = awaited if ready is None else np.maximum(ready, awaited)
            if ready is None:
                ready = np.zeros(lane.stage.shape, dtype=np.int64)
            meeting = lane.meetings[index]
            duration = lane.durations[index]
            if meeting is None:
                ends[index] = ready if duration is None else ready + duration
                lane.done += 1
                if duration is not None:
                    self.together([(lane, index)])
                continue
            assert duration is not None
            found = meeting.join(lane.stage.number, ready, duration)
            if found is None:
                lane.arrived = True
                return
            together = []
            for stage, stream, end in found:
                met = self.lanes[stage][stream]
                together.append((met, met.done))
                met.ends[met.done] = end
                met.done += 1
                if met is not lane:
                    met.arrived = False
                    self.ended += len(met.stage.columns)
                    self._wake(met)
                    self.add(met)
            self.together(together)

    def _stuck(self) -> list[str]:
        """One line per stuck stream of every class, by class."""
        lines: dict[int, list[str]] = {}
        for stage, lanes in zip(self.stages, self.lanes, strict=True):
            done, arrived = [lane.done for lane in lanes], [LATE if lane.arrived else None for lane in lanes]
            for index in stage.columns.tolist():
                rank = self.classes.representatives[index]
                lines[index] = stuck(self.program, rank, stage.linked, done, arrived)
        return [line for index in sorted(lines) for line in lines[index]]


class _Sweep(Sweep):
    """A pass over entries whose durations are known: every entry once."""

    def __init__(
        self, program: Program, classes: RankClasses, stages: Sequence[Stage], watch: Watcher
    ) -> None:
        super().__init__(program, classes, stages, watch)
        self._ready: deque[Lane] = deque()

    def add(self, lane: Lane) -> None:
        """Lanes take their turn."""
        self._ready.append(lane)

    def next(self) -> Lane | None:
        """Whose turn it is."""
        return self._ready.popleft() if self._ready else None

    def kernels(self, lane: Lane) -> None:
        """As many entries of a compute stream as can be timed now."""
        lanes, ends, readers = self.lanes[lane.stage.number], lane.ends, lane.readers
        now: Ints | None = ends[lane.done - 1] if lane.done else np.zeros(lane.stage.shape, dtype=np.int64)
        assert now is not None
        for index in range(lane.done, lane.length):
            which = lane.waits[index]
            duration = lane.durations[index]
            if which != NOTHING:
                other, position = lanes[which], lane.positions[index]
                if self.blocked(lane, other, position):
                    return
                awaited = self.end(other, position)
                now = np.maximum(now, awaited)
                if duration is not None:
                    now += duration
            elif duration is not None:
                now = now + duration
            ends[index] = now
            if index and not readers[index - 1]:
                ends[index - 1] = None
            lane.done += 1

    def end(self, lane: Lane, position: int) -> Ints:
        """The end, which is dropped if nobody else will ask for it."""
        found = lane.ends[position - 1]
        assert found is not None
        lane.readers[position - 1] -= 1
        if not lane.readers[position - 1] and lane.drops and position < lane.done:
            lane.ends[position - 1] = None
        return found

    def together(self, found: Sequence[tuple[Lane, int]]) -> None:
        """Nothing depends on it but who waits for it."""


def _latest(lane: Lane) -> Ints:
    found = lane.ends[lane.done - 1]
    assert found is not None
    return found
