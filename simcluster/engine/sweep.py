"""The sweep: a Program in time without events, in one max-plus pass in program order (DESIGN 4.9).

Every step of the pass times one entry of one stream for all classes of a stage at once:
``start = max(ready)``, ``end = start + duration``. A rendezvous is a maximum over its members. What a stream
waits for says in which order the entries of different streams are taken; any order that respects it gives the
same times, and they are those of the event-driven engine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.deadlock import HEADING, LATE, stuck
from simcluster.engine.meetings import Favourite, Rendezvous, meetings
from simcluster.engine.stage import Stage
from simcluster.engine.timed import NOTHING
from simcluster.errors import SimulationError
from simcluster.program import COMPUTE, Classes, Program

Ints = NDArray[np.int64]


@dataclass
class Lane:
    """One stream of one stage: how far it is, and the times of its entries by column.

    ``ends`` holds the ends of entries, [rows, groups] or, where all members of the stage's favourite groups
    share them, [groups]. Those of the compute stream are dropped as soon as nothing waits for them.
    """

    stage: Stage
    number: int
    waits: list[int]
    positions: list[int]
    durations: list[Ints | None]
    meetings: Sequence[Rendezvous | None]
    ends: list[Ints | None]
    readers: list[int]
    drops: bool
    done: int = 0
    arrived: bool = False
    waiters: list[tuple[int, Lane]] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Number of entries."""
        return len(self.waits)

    def of(self, column: int) -> Ints:
        """The ends of all entries of a communication stream for one column."""
        return self._column(self.ends, column)

    def spent(self, column: int) -> Ints:
        """The durations of all entries for one column."""
        return self._column(self.durations, column)

    def _column(self, values: Sequence[Ints | None], column: int) -> Ints:
        row, group = divmod(column, self.stage.shape[1])
        return np.array(
            [0 if each is None else each[group] if each.ndim == 1 else each[row, group] for each in values],
            dtype=np.int64,
        )


@dataclass(frozen=True)
class Swept:
    """All stages with the times of their communication entries, the end of the run, and its entries."""

    stages: Sequence[Stage]
    lanes: Sequence[Sequence[Lane]]
    end: int
    num_entries: int


Watcher = Callable[[int, int], None]
"""Is told from time to time how many entries have ended, and the time (ns) of the last."""


def sweep(program: Program, classes: Classes, stages: Sequence[Stage], watch: Watcher) -> Swept:
    """Times all entries; SimulationError names who waits for whom if the run cannot end.

    Raises Uneven if those who meet would not be busy equally long: then the last to arrive decides, and only
    events say who that is.
    """
    return _Sweep(program, classes, stages, watch).run()


@dataclass
class _Sweep:
    program: Program
    classes: Classes
    stages: Sequence[Stage]
    watch: Watcher
    ended: int = 0

    def run(self) -> Swept:
        places = meetings(self.program, self.classes, self.stages)
        self.lanes = [_lanes(stage, places) for stage in self.stages]
        every = [lane for lanes in self.lanes for lane in lanes]
        self.ready = deque(every)
        while self.ready:
            lane = self.ready.popleft()
            before = lane.done
            if lane.stage.linked.streams[lane.number].name == COMPUTE:
                self._kernels(lane)
            else:
                self._transfers(lane)
            if lane.done > before:
                self._wake(lane)
                self.ended += (lane.done - before) * len(lane.stage.columns)
                self.watch(self.ended, int(_latest(lane).max()))
        if any(lane.done < lane.length for lane in every):
            raise SimulationError(HEADING, *self._stuck())
        last = max((int(_latest(lane).max()) for lane in every if lane.length), default=0)
        return Swept(self.stages, self.lanes, last, self.ended)

    def _wake(self, lane: Lane) -> None:
        left = []
        for position, other in lane.waiters:
            if position <= lane.done:
                self.ready.append(other)
            else:
                left.append((position, other))
        lane.waiters = left

    def _blocked(self, lane: Lane, other: Lane, position: int) -> bool:
        if other.done >= position:
            return False
        other.waiters.append((position, lane))
        return True

    def _kernels(self, lane: Lane) -> None:
        """As many entries of a compute stream as can be timed now."""
        lanes, ends, readers = self.lanes[lane.stage.number], lane.ends, lane.readers
        now: Ints | None = ends[lane.done - 1] if lane.done else np.zeros(lane.stage.shape, dtype=np.int64)
        assert now is not None
        for index in range(lane.done, lane.length):
            which = lane.waits[index]
            duration = lane.durations[index]
            if which != NOTHING:
                other, position = lanes[which], lane.positions[index]
                if self._blocked(lane, other, position):
                    return
                awaited = _end(other, position)
                now = np.maximum(now, awaited)
                if duration is not None:
                    now += duration
            elif duration is not None:
                now = now + duration
            ends[index] = now
            if index and not readers[index - 1]:
                ends[index - 1] = None
            lane.done += 1

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
                if self._blocked(lane, other, position):
                    return
                awaited = _end(other, position)
                ready = awaited if ready is None else np.maximum(ready, awaited)
            if ready is None:
                ready = np.zeros(lane.stage.shape, dtype=np.int64)
            meeting = lane.meetings[index]
            duration = lane.durations[index]
            if meeting is None:
                ends[index] = ready if duration is None else ready + duration
                lane.done += 1
                continue
            assert duration is not None
            found = meeting.join(lane.stage.number, ready, duration)
            if found is None:
                lane.arrived = True
                return
            for stage, stream, end in found:
                met = self.lanes[stage][stream]
                met.ends[met.done] = end
                met.done += 1
                if met is not lane:
                    met.arrived = False
                    self.ended += len(met.stage.columns)
                    self._wake(met)
                    self.ready.append(met)

    def _stuck(self) -> list[str]:
        """One line per stuck stream of every class, by class."""
        lines: dict[int, list[str]] = {}
        for stage, lanes in zip(self.stages, self.lanes, strict=True):
            done, arrived = [lane.done for lane in lanes], [LATE if lane.arrived else None for lane in lanes]
            for index in stage.columns.tolist():
                rank = self.classes.representatives[index]
                lines[index] = stuck(self.program, rank, stage.linked, done, arrived)
        return [line for index in sorted(lines) for line in lines[index]]


def _end(lane: Lane, position: int) -> Ints:
    """When so many entries of a lane have ended; said once to each who waits for it."""
    found = lane.ends[position - 1]
    assert found is not None
    lane.readers[position - 1] -= 1
    if not lane.readers[position - 1] and lane.drops and position < lane.done:
        lane.ends[position - 1] = None
    return found


def _latest(lane: Lane) -> Ints:
    found = lane.ends[lane.done - 1]
    assert found is not None
    return found


def _lanes(stage: Stage, places: Mapping[tuple[int, int, int], Rendezvous]) -> list[Lane]:
    durations = stage.durations
    whole = [row.reshape(stage.shape) if row.any() else None for row in durations]
    streams = stage.linked.streams
    lanes = []
    for number, each in enumerate(streams):
        meetings: list[Rendezvous | None] = [None] * len(each)
        taken = [whole[row] for row in stage.rows(number).tolist()]
        for position in np.flatnonzero(each.meeting != NOTHING).tolist():
            execution = stage.linked.executions[each.execution[position]]
            found = places.get((stage.number, execution.code, int(each.meeting[position])))
            duration = taken[position]
            meetings[position] = found
            if isinstance(found, Favourite) and duration is not None:
                # All members of a group are busy equally long.
                taken[position] = duration[0]
        lanes.append(
            Lane(
                stage,
                number,
                each.wait_stream.tolist(),
                each.wait_position.tolist(),
                taken,
                meetings,
                [None] * len(each),
                _readers(stage, number),
                each.name == COMPUTE,
            )
        )
    return lanes


def _readers(stage: Stage, number: int) -> list[int]:
    """Per entry of a stream how many entries of others wait for its end."""
    counts = np.zeros(len(stage.linked.streams[number]) + 1, dtype=np.int64)
    for each in stage.linked.streams:
        awaited = each.wait_position[each.wait_stream == number]
        np.add.at(counts, awaited, 1)
    return [int(count) for count in counts[1:]]
