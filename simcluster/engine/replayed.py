"""The slowed segments of one class of a sweep, once more with events, for the times of their kernels."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np
import simpy
from numpy.typing import NDArray

from simcluster.cluster import ResourceShare
from simcluster.engine.class_program import ClassProgram
from simcluster.engine.pace import Pace, Segment
from simcluster.engine.stage import Stage
from simcluster.engine.timed import NOTHING
from simcluster.program import COMPUTE

Ints = NDArray[np.int64]


def replayed(
    slowed: Ints,
    segments: Sequence[Segment | None],
    starts: Sequence[Ints],
    ends: Sequence[Ints],
    linked: ClassProgram,
    shares: Sequence[Sequence[ResourceShare | None]],
) -> Pace:
    """The pace of a class whose ``slowed`` segments have run beside its communication.

    ``starts`` and ``ends`` are those of the entries of all its streams, ``shares`` what each takes.
    """
    env = simpy.Environment()
    pace = Pace(env)
    compute = next(number for number, each in enumerate(linked.streams) if each.name == COMPUTE)
    begun, over = starts[compute][slowed], ends[compute][slowed]
    changes: list[tuple[int, int, ResourceShare]] = []
    for number in range(len(linked.streams)):
        if number == compute:
            continue
        near = np.searchsorted(over, starts[number], side="right")
        met = np.append(begun, np.iinfo(np.int64).max)[near] < ends[number]
        for entry in np.flatnonzero(met).tolist():
            taken = shares[number][entry]
            if taken is not None:
                changes.append((int(starts[number][entry]), 1, taken))
                changes.append((int(ends[number][entry]), -1, taken))
    changes.sort(key=lambda change: change[:2])

    def kernels() -> Generator[simpy.Event, None, None]:
        for entry, start in zip(slowed.tolist(), begun.tolist(), strict=True):
            segment = segments[entry]
            assert segment is not None
            if start > env.now:
                yield env.timeout(start - env.now)
            yield pace.start(entry, segment)
            pace.stop()

    def communication() -> Generator[simpy.Event, None, None]:
        for time, sign, taken in changes:
            if time > env.now:
                yield env.timeout(time - env.now)
            if sign > 0:
                pace.begin(taken)
            else:
                pace.finish(taken)

    env.process(communication())
    env.process(kernels())
    env.run()
    return pace


def shares_of(stage: Stage, column: int) -> list[list[ResourceShare | None]]:
    """By stream and entry what a class of a stage gives to its communication."""
    known: dict[tuple[int, int], ResourceShare] = {}
    found = []
    for each in stage.linked.streams:
        takes: list[ResourceShare | None] = [None] * len(each)
        for entry in np.flatnonzero(each.meeting != NOTHING).tolist():
            place = stage.linked.executions[each.execution[entry]].code, int(each.meeting[entry])
            if place not in known and place[1] in stage.priced[place[0]].takes:
                known[place] = stage.priced[place[0]].takes[place[1]].of(column)
            takes[entry] = known.get(place)
        found.append(takes)
    return found
