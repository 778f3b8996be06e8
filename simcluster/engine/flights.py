"""What a sweep puts on links, and when, if nothing it meets there slows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.fabric import Links, Transfer
from simcluster.engine.lanes import Lane
from simcluster.engine.prices import Carried
from simcluster.engine.stage import Stage
from simcluster.engine.sweep import Swept
from simcluster.engine.timed import NOTHING
from simcluster.program import InstructionKind, Program, RankClasses

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Flights:
    """The transfers of one instruction of a stage: again and again the same, by those who meet in it.

    Each is told once, for its ``leaders``, columns of the stage: the first class of a group, or who sends.
    They take ``transfers``, by leader; ``track`` [leaders] is equal where one is over before the next starts.
    ``entries`` of the ``lane`` are the times it is done.
    """

    lane: Lane
    entries: Sequence[int]
    leaders: Ints
    track: Ints
    transfers: Sequence[Transfer]

    @cached_property
    def starts(self) -> Ints:
        """Nanoseconds [entries, leaders] at which they start."""
        lane, shape = self.lane, self.lane.stage.shape
        found = np.empty((len(self.entries), len(self.leaders)), dtype=np.int64)
        for row, entry in enumerate(self.entries):
            end, duration = lane.ends[entry], lane.durations[entry]
            assert end is not None and duration is not None
            found[row] = np.broadcast_to(end - duration, shape).ravel()[self.leaders]
        return found

    @property
    def num_flows(self) -> int:
        """How many phases are carried."""
        return len(self.entries) * sum(len(each.phases) for each in self.transfers)


def flights(program: Program, classes: RankClasses, swept: Swept) -> list[Flights]:
    """All that a sweep carries over links."""
    tracks: dict[tuple[object, ...], int] = {}
    found = []
    for stage, lanes in zip(swept.stages, swept.lanes, strict=True):
        for lane in lanes:
            for code, index, entries in _meetings(stage, lane):
                each = program.codes[code].instructions[index]
                carried = stage.priced[code].carried.get(index)
                if carried is None or each.action is InstructionKind.RECEIVE:
                    continue
                leaders, keys = [], []
                for column, number in enumerate(stage.columns.tolist()):
                    if each.action is InstructionKind.SEND:
                        key: tuple[object, ...] = (each.stream, number)
                    else:
                        group = classes.groups[number, each.group]
                        if group.members[0] != number:
                            continue
                        key = (each.stream, each.group, group.id)
                    leaders.append(column)
                    keys.append(tracks.setdefault(key, len(tracks)))
                if leaders:
                    found.append(_of(lane, entries, carried, np.array(leaders), np.array(keys)))
    return found


def _of(lane: Lane, entries: Sequence[int], carried: Carried, leaders: Ints, track: Ints) -> Flights:
    transfers = [carried.transfers[number] for number in carried.which[leaders].tolist()]
    return Flights(lane, entries, leaders, track, transfers)


def _meetings(stage: Stage, lane: Lane) -> Iterator[tuple[int, int, list[int]]]:
    """(code, instruction, entries) of what a lane does more than alone."""
    each = stage.linked.streams[lane.number]
    entries = np.flatnonzero(each.meeting != NOTHING)
    if not entries.size:
        return
    per_step = len(stage.linked.executions) // stage.linked.steps
    of_code = np.array([run.code for run in stage.linked.executions[:per_step]], dtype=np.int64)
    pairs = np.stack([of_code[each.execution[entries] % per_step], each.meeting[entries]], axis=1)
    kinds, which = np.unique(pairs, axis=0, return_inverse=True)
    for number, (code, index) in enumerate(kinds.tolist()):
        yield code, index, entries[which.reshape(-1) == number].tolist()


@dataclass(frozen=True)
class Flown:
    """The phases of flights side by side: by phase of each transfer, when it begins and ends.

    ``leader`` (among those of the flights), ``vector``, ``begin`` and ``end`` (ns after the start) and
    ``rate`` (bytes/s): all [phases].
    """

    leader: Ints
    vector: Ints
    begin: Ints
    end: Ints
    rate: NDArray[np.float64]

    @classmethod
    def of(cls, transfers: Sequence[Transfer], links: Links) -> Flown:
        """The phases of transfers that nothing meets on these links."""
        rows: list[tuple[int, int, int, int]] = []
        rates: list[float] = []
        for leader, each in enumerate(transfers):
            times = links.times(each)
            for phase, begin, end in zip(each.phases, times, times[1:], strict=False):
                rows.append((leader, phase.vector, begin, end))
                rates.append(min(phase.cap, links.rates[phase.vector]))
        leaders, vectors, begins, ends = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        return cls(leaders, vectors, begins, ends, np.array(rates, dtype=np.float64))
