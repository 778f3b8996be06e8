"""Kernels of a stage that give way to communication, taken up in the middle of a run.

What was swept says which of them are in flight, since when, and what has run beside them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import simpy
from numpy.typing import NDArray

from simcluster.cluster import ResourceShare
from simcluster.engine.lanes import Lane, Longer
from simcluster.engine.pace import Pace, Segment, longer
from simcluster.engine.stage import Stage
from simcluster.engine.streams import SimEvents
from simcluster.engine.timed import NOTHING

Ints = NDArray[np.int64]


class TakenUp:
    """The paces of a stage's columns from now on.

    ``over`` [columns] segments of the ``compute`` lane have ended; the next ones have ``begun`` [columns], or
    begin now or later.
    """

    def __init__(
        self,
        env: simpy.Environment,
        stage: Stage,
        lanes: Sequence[Lane],
        compute: Lane,
        over: Ints,
        begun: Ints,
    ) -> None:
        self.stage, self.lanes, self.compute = stage, lanes, compute
        self.time = int(env.now)
        self._over, self._begun = over, begun
        self._rows: list[int] = stage.rows(compute.number).tolist()
        self._parts: dict[int, Ints] = {}
        self.paces = [Pace(env) for _ in range(len(over))]
        self._ends = self._resumed()

    def over(self, column: int) -> SimEvents:
        """The end of the segment in flight of a column that has one."""
        end = self._ends[column]
        assert end is not None
        yield end
        self.paces[column].stop()

    def segments(self, column: int, first: int) -> Iterator[Segment | None]:
        """What the entries of a column do, from number ``first`` on."""
        return (self._segment(entry, column) for entry in range(first, self.compute.length))

    def longer(self) -> Iterator[tuple[int, Longer]]:
        """The segments that communication has slowed, before and since."""
        found = defaultdict(list)
        for column, pace in enumerate(self.paces):
            for entry, segment, sections in pace.stretched:
                found[entry].append((column, longer(segment, sections)))
        nothing = np.zeros(0, dtype=np.int64)
        for entry in sorted({*self.compute.longer, *found}):
            columns, spent = self.compute.longer.get(entry, (nothing, nothing))
            before = entry < self._over[columns]
            since = np.array(found[entry], dtype=np.int64).reshape(-1, 2).T
            columns, spent = np.append(columns[before], since[0]), np.append(spent[before], since[1])
            slowed = spent > 0
            if slowed.any():
                yield entry, (columns[slowed], spent[slowed])

    def _segment(self, entry: int, column: int) -> Segment | None:
        if self.compute.durations[entry] is None:
            return None
        row = self._rows[entry]
        if row not in self._parts:
            self._parts[row] = self.stage.parts(self.compute.number, entry)
        return Segment(self._parts[row][:, :, column])

    def _resumed(self) -> list[simpy.Event | None]:
        """By column the end of what is in flight."""
        resumed = []
        for column, (pace, changes) in enumerate(zip(self.paces, self._changes(), strict=True)):
            entry, begun = int(self._over[column]), int(self._begun[column])
            segment = self._segment(entry, column) if begun < self.time else None
            resumed.append(pace.resume(changes, entry, segment, begun))
        return resumed

    def _changes(self) -> list[list[tuple[int, int, ResourceShare]]]:
        """By column when communication has begun (1) and ended (-1) that is under way, or has been since the
        kernels in flight began.
        """
        found: list[list[tuple[int, int, ResourceShare]]] = [[] for _ in self.paces]
        since = np.minimum(self._begun, self.time)
        for lane in self.lanes:
            each = self.stage.linked.streams[lane.number]
            for entry in reversed(range(0 if lane.drops else lane.length)):
                end, duration = lane.ends[entry], lane.durations[entry]
                assert end is not None
                over = self._flat(end)
                counts = (over > since) | (over == self.time)
                if not counts.any():
                    break
                if each.meeting[entry] == NOTHING or duration is None:
                    continue
                code = self.stage.linked.executions[each.execution[entry]].code
                shares = self.stage.priced[code].takes.get(int(each.meeting[entry]))
                if shares is None:
                    continue
                begun = over - self._flat(duration)
                for column in np.flatnonzero((begun < self.time) & counts).tolist():
                    taken = shares.of(column)
                    found[column].append((int(begun[column]), 1, taken))
                    if over[column] < self.time:
                        found[column].append((int(over[column]), -1, taken))
        for changes in found:
            changes.sort(key=lambda change: change[:2])
        return found

    def _flat(self, times: Ints) -> Ints:
        found: Ints = np.broadcast_to(times, self.stage.shape).ravel()
        return found
