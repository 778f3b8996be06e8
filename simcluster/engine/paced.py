"""The sweep where kernels give way to communication beside them.

How long a segment takes depends on what begins before its end, and that may be timed only later: a stage's
transfers begin when its neighbour's kernels end, and the other way round. So segments are timed with what is
known; the stage that is furthest behind goes on first. What becomes known later is put right: every entry
that it changes is timed once more, and so is what depends on that, as long as anything changes. As a cause
comes before what it changes, only one set of times agrees with itself, that of the event-driven engine: the
earliest wrong instant always gets right.

What no change can reach any more is forgotten: no entry that is still to be timed, or to be changed, ends
before the least time that any stage's kernels have come to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.beside import NEVER, Beside
from simcluster.engine.lanes import Lane
from simcluster.engine.meetings import Across
from simcluster.engine.stage import Stage
from simcluster.engine.sweep import Sweep, Swept, Watcher
from simcluster.engine.timed import NOTHING
from simcluster.program import Program, RankClasses

Ints = NDArray[np.int64]

FEW = 16
"""Segments that a stage times before another has its turn."""

OFTEN = 128
"""Turns between two looks at what can be forgotten."""


def paced(program: Program, classes: RankClasses, stages: Sequence[Stage], watch: Watcher) -> Swept:
    """Times all entries, kernels slowed by what runs beside them; raises as ``sweep`` does."""
    return _Paced(program, classes, stages, watch).run()


class _Ends:
    """What follows the entries of one stage: (stream, entry) of those that wait for each, by stream."""

    def __init__(self, stage: Stage) -> None:
        streams = stage.linked.streams
        self.of: list[list[list[tuple[int, int]]]] = [[[] for _ in range(len(each))] for each in streams]
        for number, each in enumerate(streams):
            waits, positions = each.wait_stream.tolist(), each.wait_position.tolist()
            for entry, (other, position) in enumerate(zip(waits, positions, strict=True)):
                if other != NOTHING and position:
                    self.of[other][position - 1].append((number, entry))


class _Paced(Sweep):
    """A pass in the order of time, as far as it is known, that mends what it has timed too early."""

    def __init__(
        self, program: Program, classes: RankClasses, stages: Sequence[Stage], watch: Watcher
    ) -> None:
        super().__init__(program, classes, stages, watch)
        self._transferring: deque[Lane] = deque()
        self._computing: list[tuple[int, int]] = []
        self._computes = [next(lane for lane in lanes if lane.drops) for lanes in self.lanes]
        self._beside = [Beside(stage, lanes) for stage, lanes in zip(stages, self.lanes, strict=True)]
        self._followers = [_Ends(stage).of for stage in stages]
        self._partners: dict[tuple[int, int, int], Sequence[tuple[Lane, int]]] = {}
        self._wrong: list[tuple[int, int, int, int]] = []
        self._marked: dict[tuple[int, int, int], NDArray[np.bool_]] = {}
        self._turns = self._sure = 0
        self._kept = [0 for _ in stages]
        """By stage the first segment whose end is known."""
        self._low = [0 for _ in stages]
        """By stage the first row that may lie beside a segment which is not forgotten."""

    def run(self) -> Swept:
        """All times; of kernels only how much longer they take."""
        found = super().run()
        for lane in self._computes:
            lane.ends[: lane.length - 1] = [None] * (lane.length - 1)
        return found

    # -- whose turn it is -------------------------------------------------------------------------------

    def add(self, lane: Lane) -> None:
        """Communication goes first: then all is known that begins before the kernels that are behind."""
        if not lane.drops:
            self._transferring.append(lane)
            return
        now = lane.ends[lane.done - 1] if lane.done else None
        heappush(self._computing, (0 if now is None else int(now.flat[0]), lane.stage.number))

    def next(self) -> Lane | None:
        """A lane that may go on."""
        if self._transferring:
            return self._transferring.popleft()
        if not self._computing:
            return None
        self._turns += 1
        if not self._turns % OFTEN:
            self._forget()
        _, stage = heappop(self._computing)
        return self._computes[stage]

    def kernels(self, lane: Lane) -> None:
        """A few entries, none after one that others wait for."""
        followers = self._followers[lane.stage.number][lane.number]
        beside = self._beside[lane.stage.number]
        lanes = self.lanes[lane.stage.number]
        until = min(lane.length, lane.done + FEW)
        while lane.done < until:
            index = lane.done
            which = lane.waits[index]
            if which != NOTHING and self.blocked(lane, lanes[which], lane.positions[index]):
                return
            start = self._ready(lane, index)
            if beside.low < beside.count:
                beside.pass_by(start.reshape(-1))
            lane.ends[index] = self._through(lane, index, start, beside.low)
            lane.done += 1
            if followers[index]:
                break
        if lane.done < lane.length:
            self.add(lane)

    def end(self, lane: Lane, position: int) -> Ints:
        """The end as far as it is known now."""
        found = lane.ends[position - 1]
        assert found is not None
        return found

    def _ready(self, lane: Lane, entry: int) -> Ints:
        """When all that an entry waits for is over."""
        before = lane.ends[entry - 1] if entry else None
        if entry:
            assert before is not None
        which = lane.waits[entry]
        awaited = None
        if which != NOTHING:
            awaited = self.end(self.lanes[lane.stage.number][which], lane.positions[entry])
        if before is not None and awaited is not None:
            return np.maximum(before, awaited)
        found = awaited if before is None else before
        if found is None or (lane.drops and found.ndim == 1):
            found = np.broadcast_to(0 if found is None else found, lane.stage.shape).copy()
        return found

    def _through(self, lane: Lane, entry: int, start: Ints, low: int) -> Ints:
        """The end of a segment, and how much longer it takes."""
        duration = lane.durations[entry]
        if duration is None:
            return start
        end = start + duration
        flat = end.reshape(-1)
        longer = self._beside[lane.stage.number].longer(entry, start.reshape(-1), flat, low)
        if longer is None:
            lane.longer.pop(entry, None)
        else:
            columns, spent = lane.longer[entry] = longer
            flat[columns] += spent
        return end

    # -- what becomes known -----------------------------------------------------------------------------

    def together(self, found: Sequence[tuple[Lane, int]]) -> None:
        """Segments beside it that have been timed without it are timed again."""
        for lane, entry in found:
            if len(found) > 1:
                self._partners[lane.stage.number, lane.number, entry] = found
            beside = self._beside[lane.stage.number]
            if entry in beside.kinds[lane.number]:
                row, _, _ = beside.tell(lane.number, entry)
                self._touch(lane.stage.number, beside.begins[row], beside.ends[row])
        self._mend()

    def _touch(self, stage: int, begins: Ints, ends: Ints) -> None:
        """Marks the timed segments that end after ``begins`` and may start before ``ends``."""
        lane = self._computes[stage]
        for entry in range(lane.done - 1, -1, -1):
            over = lane.ends[entry]
            if over is None:
                return
            late = over.reshape(-1) > begins
            if not late.any():
                return
            if entry:
                before = lane.ends[entry - 1]
                assert before is not None
                late &= before.reshape(-1) < ends
                if not late.any():
                    continue
            if lane.durations[entry] is not None:
                self._mark(lane, entry, late)

    def _mark(self, lane: Lane, entry: int, columns: NDArray[np.bool_]) -> None:
        """Has an entry timed again, if it has been timed, or has arrived where it meets others.

        Of a segment only the marked ``columns`` are timed again.
        """
        if entry > lane.done or (entry == lane.done and not lane.arrived):
            return
        which = lane.stage.number, lane.number, entry
        if which in self._marked:
            self._marked[which] = self._marked[which] | columns
            return
        self._marked[which] = columns
        known = lane.ends[entry] if entry < lane.done else None
        heappush(self._wrong, (NEVER if known is None else int(known.flat[0]), *which))

    def _mend(self) -> None:
        """Times again what is marked, the earliest first, and what depends on what has changed."""
        while self._wrong:
            _, stage, stream, entry = heappop(self._wrong)
            marked = self._marked.pop((stage, stream, entry))
            lane = self.lanes[stage][stream]
            if lane.drops:
                self._kernels_again(lane, entry, np.flatnonzero(marked))
            elif entry < lane.done:
                self._transfer_again(lane, entry)
            else:
                ready, duration = self._ready(lane, entry), lane.durations[entry]
                meeting = lane.meetings[entry]
                assert meeting is not None and duration is not None
                meeting.join(stage, ready, duration)

    def _kernels_again(self, lane: Lane, entry: int, columns: Ints) -> None:
        stage, before, duration = lane.stage, lane.ends[entry], lane.durations[entry]
        assert before is not None
        start = self._ready(lane, entry).reshape(-1)[columns]
        end = before.copy()
        if duration is None:
            end.reshape(-1)[columns] = start
        else:
            beside = self._beside[stage.number]
            over = start + duration.reshape(-1)[columns]
            spent = np.zeros(len(stage.columns), dtype=np.int64)
            if entry in lane.longer:
                which, known = lane.longer.pop(entry)
                spent[which] = known
            spent[columns] = beside.spent(entry, columns, start, over, self._low[stage.number])
            end.reshape(-1)[columns] = over + spent[columns]
            slowed = np.flatnonzero(spent)
            if slowed.size:
                lane.longer[entry] = slowed, spent[slowed]
        if self._changed(lane, entry, end):
            self._beside[stage.number].low = self._low[stage.number]

    def _transfer_again(self, lane: Lane, entry: int) -> None:
        for (other, mine), end in self._met_again(lane, entry):
            if not self._changed(other, mine, end):
                continue
            number = other.stage.number
            beside = self._beside[number]
            if mine in beside.kinds[other.number]:
                row, begins, ends = beside.tell(other.number, mine)
                now = beside.begins[row], beside.ends[row]
                same = (begins == now[0]) & (ends == now[1])
                begins = np.where(same, NEVER, np.minimum(begins, now[0]))
                self._touch(number, begins, np.maximum(ends, now[1]))
                beside.low = self._low[number]

    def _met_again(self, lane: Lane, entry: int) -> Sequence[tuple[tuple[Lane, int], Ints]]:
        """The entries that meet, or the only one, and their ends."""
        stage, meeting, duration = lane.stage.number, lane.meetings[entry], lane.durations[entry]
        if meeting is None or duration is None:
            ready = self._ready(lane, entry)
            return [((lane, entry), ready if duration is None else ready + duration)]
        partners = self._partners.get((stage, lane.number, entry))
        if partners is None:
            found = meeting.join(stage, self._ready(lane, entry), duration)
            assert found is not None
            return [((lane, entry), found[0][2])]
        assert isinstance(meeting, Across)
        here: dict[int, tuple[Ints, Ints]] = {}
        for other, mine in partners:
            spent = other.durations[mine]
            assert spent is not None
            ready = np.broadcast_to(self._ready(other, mine), other.stage.shape)
            here[other.stage.number] = ready.ravel(), spent.ravel()
        return [(pair, end) for pair, (_, _, end) in zip(partners, meeting.met(here), strict=True)]

    def _changed(self, lane: Lane, entry: int, end: Ints) -> bool:
        """Puts an end in the place of another; if they differ, marks what depends on it."""
        before = lane.ends[entry]
        assert before is not None
        changed = np.broadcast_to(before != end, lane.stage.shape).reshape(-1)
        if not changed.any():
            return False
        lane.ends[entry] = end
        self._mark(lane, entry + 1, changed)
        lanes = self.lanes[lane.stage.number]
        for stream, other in self._followers[lane.stage.number][lane.number][entry]:
            self._mark(lanes[stream], other, changed)
        return True

    # -- what can be forgotten --------------------------------------------------------------------------

    def _forget(self) -> None:
        """Drops the ends of segments that nothing can change, and that nobody will ask for."""
        known = []
        for lane in self._computes:
            if lane.done < lane.length:
                now = lane.ends[lane.done - 1] if lane.done else None
                known.append(0 if now is None else int(now.min()))
        self._sure = max(self._sure, min(known, default=0))
        for stage, lane in enumerate(self._computes):
            first = self._kept[stage]
            while first + 1 < lane.done and self._settled(lane, first):
                lane.ends[first] = None
                first += 1
            if first == self._kept[stage]:
                continue
            self._kept[stage] = first
            since = lane.ends[first]
            assert since is not None
            self._low[stage] = self._beside[stage].passed(self._low[stage], since.reshape(-1))

    def _settled(self, lane: Lane, entry: int) -> bool:
        """Whether neither the segment after it nor who waits for it can change."""
        after = lane.ends[entry + 1]
        assert after is not None
        if int(after.max()) > self._sure:
            return False
        lanes = self.lanes[lane.stage.number]
        for stream, other in self._followers[lane.stage.number][lane.number][entry]:
            if lanes[stream].done <= other:
                return False
            end = lanes[stream].ends[other]
            if end is not None and int(end.max()) > self._sure:
                return False
        return True
