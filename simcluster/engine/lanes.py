"""The streams of a stage's classes side by side: what their entries wait for, and their times by column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.meetings import Favourite, Rendezvous
from simcluster.engine.stage import Stage
from simcluster.engine.timed import NOTHING
from simcluster.program import COMPUTE

Ints = NDArray[np.int64]

Longer: TypeAlias = tuple[Ints, Ints]
"""Columns, and nanoseconds that an entry takes longer in each of them than its duration."""


@dataclass
class Lane:
    """One stream of one stage: how far it is, and the times of its entries by column.

    ``ends`` holds the ends of entries, [rows, groups] or, where all members of the stage's favourite groups
    share them, [groups]. Those of the compute stream are dropped as soon as nothing waits for them.
    ``longer`` has the entries of the compute stream that communication slows.
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
    longer: dict[int, Longer] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """Number of entries."""
        return len(self.waits)

    def taking(self, entry: int) -> Ints | None:
        """What an entry of the compute stream takes, with what it takes longer; None if nothing."""
        duration = self.durations[entry]
        if duration is None or entry not in self.longer:
            return duration
        columns, spent = self.longer[entry]
        found = duration.copy()
        found.reshape(-1)[columns] += spent
        return found

    def after(self, entry: int, start: Ints) -> Ints:
        """When an entry of the compute stream ends that starts at ``start`` [rows, groups]."""
        duration = self.taking(entry)
        return start if duration is None else start + duration

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


def lanes_of(stage: Stage, places: Mapping[tuple[int, int, int], Rendezvous]) -> list[Lane]:
    """All streams of a stage, nothing of which has been timed."""
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


def kernels(lanes: Sequence[Lane]) -> Iterator[tuple[int, Ints]]:
    """(entry, its end by column) of the compute stream, once more from the ends of the others."""
    lane = next(lane for lane in lanes if lane.drops)
    now = np.zeros(lane.stage.shape, dtype=np.int64)
    for index, (stream, position) in enumerate(zip(lane.waits, lane.positions, strict=True)):
        if stream != NOTHING:
            awaited = lanes[stream].ends[position - 1]
            assert awaited is not None
            now = np.maximum(now, awaited)
        now = lane.after(index, now)
        yield index, now


def _readers(stage: Stage, number: int) -> list[int]:
    """Per entry of a stream how many entries of others wait for its end."""
    counts = np.zeros(len(stage.linked.streams[number]) + 1, dtype=np.int64)
    for each in stage.linked.streams:
        awaited = each.wait_position[each.wait_stream == number]
        np.add.at(counts, awaited, 1)
    return [int(count) for count in counts[1:]]
