"""What is left of a sweep from an instant on, with events: the part in which transfers meet on links.

What ended before the instant stands. What is in flight goes on as it was: kernels and transfers that have
started, phases with the bytes they still have, members of a group that wait for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
import simpy
from numpy.typing import NDArray

from simcluster.cluster import ResourceShare
from simcluster.engine.entry_types import EntryTypes
from simcluster.engine.fabric import Links, Transfer
from simcluster.engine.flows import Network
from simcluster.engine.lanes import Lane, kernels
from simcluster.engine.stage import Stage
from simcluster.engine.streams import (
    Communications,
    Kernels,
    Meeting,
    Moves,
    SimEvents,
    Stream,
    run_kernels,
    run_slowed_kernels,
    run_transfers,
)
from simcluster.engine.sweep import Swept
from simcluster.engine.taken_up import TakenUp
from simcluster.program import (
    SENDER_OF,
    Instruction,
    InstructionKind,
    Program,
    RankClasses,
    peer_is_next_stage,
)

Ints = NDArray[np.int64]
Key = tuple[object, ...]


@dataclass
class Rest:
    """A sweep from the instant ``time`` (ns) on.

    ``streams`` has those of every class, which know how many entries are over.
    """

    program: Program
    classes: RankClasses
    swept: Swept
    links: Links
    time: int

    def __post_init__(self) -> None:
        self.env = simpy.Environment(self.time)
        self.network = Network(self.env, self.links)
        self.met: dict[Key, Meeting] = {}
        self.end = self.time
        self.parts = [
            _Part(self, stage, lanes)
            for stage, lanes in zip(self.swept.stages, self.swept.lanes, strict=True)
        ]

    @property
    def streams(self) -> list[Stream]:
        """All streams."""
        return [stream for part in self.parts for streams in part.streams for stream in streams]

    def run(self) -> Swept | None:
        """The sweep with what became of the rest; None if links that carry nothing keep it from ending."""
        for part in self.parts:
            part.start()
        self.env.run()
        if any(stream.done < stream.length for stream in self.streams):
            return None
        for part in self.parts:
            part.keep()
        return Swept(self.swept.stages, self.swept.lanes, self.end, self.swept.num_entries)

    def meeting(self, key: Key, size: int) -> Meeting | None:
        """Where those meet who have this key."""
        return self.met.setdefault(key, Meeting(size)) if size > 1 else None

    def last(self, process: Iterable[simpy.Event]) -> SimEvents:
        """A process, at the end of which it is known to be over."""
        yield from process
        self.end = max(self.end, int(self.env.now))


@dataclass
class _Part:
    """One stage of the rest."""

    rest: Rest
    stage: Stage
    lanes: Sequence[Lane]

    def __post_init__(self) -> None:
        self.width = len(self.stage.columns)
        self.over = [
            np.zeros(self.width, dtype=np.int64) if lane.drops else self._over(lane) for lane in self.lanes
        ]
        names = [each.name for each in self.stage.linked.streams]
        self.compute = next(lane.number for lane in self.lanes if lane.drops)
        self._running()
        gives_way = any(priced.takes for priced in self.stage.priced.values())
        lane = self.lanes[self.compute]
        self.taken_up = (
            TakenUp(self.rest.env, self.stage, self.lanes, lane, self.over[self.compute], self.begun)
            if gives_way
            else None
        )
        over = [found.tolist() for found in self.over]
        self.streams = [
            [
                Stream(name, self.rest.env, lane.length, done=over[number][column])
                for number, (name, lane) in enumerate(zip(names, self.lanes, strict=True))
            ]
            for column in range(self.width)
        ]

    def flat(self, times: Ints) -> Ints:
        """By column."""
        found: Ints = np.broadcast_to(times, self.stage.shape).ravel()
        return found

    def _over(self, lane: Lane) -> Ints:
        """By column how many entries of a lane are over."""
        found = np.full(self.width, lane.length, dtype=np.int64)
        for end in reversed(lane.ends):
            assert end is not None
            left = self.flat(end) >= self.rest.time
            if not left.any():
                break
            found -= left
        return found

    def _running(self) -> None:
        """By column how many kernels are over, and when the next one starts and ends."""
        lane = self.lanes[self.compute]
        left = np.full(self.width, lane.length, dtype=np.int64)
        self.begun, self.until = (np.full(self.width, self.rest.time, dtype=np.int64) for _ in range(2))
        for index, end in kernels(self.lanes):
            if int(end.max()) < self.rest.time:
                continue
            mine = np.flatnonzero((left == lane.length) & (self.flat(end) >= self.rest.time))
            if mine.size:
                duration = lane.taking(index)
                left[mine] = index
                self.until[mine] = self.flat(end)[mine]
                self.begun[mine] = self.until[mine] - (0 if duration is None else self.flat(duration)[mine])
                if (left < lane.length).all():
                    break
        self.over[self.compute] = left

    # -- processes --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the processes of all streams."""
        for lane in self.lanes:
            first = int(self.over[lane.number].min())
            if first == lane.length:
                continue
            ahead = _Ahead(self, lane, first)
            for column, stream in enumerate(row[lane.number] for row in self.streams):
                if stream.done < lane.length:
                    process = ahead.kernels(column) if lane.drops else ahead.transfers(column)
                    self.rest.env.process(self.rest.last(process))

    # -- results ----------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Puts the times of the rest in the place of those that were swept."""
        for lane in self.lanes:
            first = int(self.over[lane.number].min())
            if lane.drops or first == lane.length:
                continue
            shape = (lane.length - first, self.width)
            ends, spent = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
            for row, entry in enumerate(range(first, lane.length)):
                end, duration = lane.ends[entry], lane.durations[entry]
                assert end is not None
                ends[row] = self.flat(end)
                if duration is not None:
                    spent[row] = self.flat(duration)
            for column, stream in enumerate(found[lane.number] for found in self.streams):
                begin = shape[0] - len(stream.ends)
                ends[begin:, column] = stream.ends
                spent[begin:, column] = ends[begin:, column] - np.array(stream.starts, dtype=np.int64)
            for row, entry in enumerate(range(first, lane.length)):
                before = lane.ends[entry]
                assert before is not None
                lane.ends[entry] = self._shaped(ends[row], before.ndim)
                if lane.durations[entry] is not None:
                    lane.durations[entry] = self._shaped(spent[row], before.ndim)
        if self.taken_up is not None:
            self.lanes[self.compute].longer = dict(self.taken_up.longer())

    def _shaped(self, times: Ints, dims: int) -> Ints:
        found = times.reshape(self.stage.shape)
        return found[0] if dims == 1 else found


@dataclass
class _Ahead:
    """The entries of a lane from number ``first`` on, which all columns share but for times and peers."""

    part: _Part
    lane: Lane
    first: int

    @property
    def rest(self) -> Rest:
        """What it is part of."""
        return self.part.rest

    @cached_property
    def waits(self) -> list[int]:
        """What entries wait for."""
        return self.lane.waits[self.first :]

    @cached_property
    def positions(self) -> list[int]:
        """How many of its entries must have ended."""
        return self.lane.positions[self.first :]

    @cached_property
    def rows(self) -> Ints:
        """Where their durations are."""
        return self.part.stage.rows(self.lane.number)[self.first :]

    def waiting(self, column: int, skipped: int) -> tuple[Iterator[Stream | None], Iterator[int]]:
        """The streams and positions a column's entries wait for, after some of them."""
        table: list[Stream | None] = [*self.part.streams[column], None]
        return map(table.__getitem__, islice(self.waits, skipped, None)), islice(
            self.positions, skipped, None
        )

    def kernels(self, column: int) -> SimEvents:
        """The process of a compute stream."""
        me = self.part.streams[column][self.lane.number]
        skipped = me.done - self.first
        begun, until = int(self.part.begun[column]), int(self.part.until[column])
        taken_up = self.part.taken_up
        if begun < self.rest.time:
            skipped += 1
            if taken_up is None:
                yield me.env.timeout(until - self.rest.time)
            else:
                yield from taken_up.over(column)
            me.done += 1
            me.wake()
        durations = self.part.stage.durations[self.rows[skipped:], column].tolist()
        entries = Kernels(*self.waiting(column, skipped), durations)
        if taken_up is None:
            yield from run_kernels(me, entries)
        else:
            first = self.first + skipped
            segments = taken_up.segments(column, first)
            yield from run_slowed_kernels(me, entries, segments, taken_up.paces[column], first)

    # -- transfers --------------------------------------------------------------------------------------

    @cached_property
    def kinds(self) -> EntryTypes:
        """What entries do."""
        found = EntryTypes.of(self.rest.program, self.part.stage.linked, self.lane.number)
        return EntryTypes(found.places, found.which[self.first :], found.ordinals[self.first :])

    def transfers(self, column: int) -> SimEvents:
        """The process of a communication stream."""
        rest, me = self.rest, self.part.streams[column][self.lane.number]
        skipped = me.done - self.first
        moves, keys, takes = self._done_by(column)
        pace = self.part.taken_up.paces[column] if self.part.taken_up is not None else None
        which, ordinals = self.kinds.which, self.kinds.ordinals
        end, duration = self.lane.ends[me.done], self.lane.durations[me.done]
        assert end is not None
        over = int(self.part.flat(end)[column])
        began = over - (0 if duration is None else int(self.part.flat(duration)[column]))
        if began < rest.time:
            kind = which[skipped]
            key, size, leads = keys[kind]
            meeting = rest.meeting((*key, ordinals[skipped]), size)
            yield from self._started(me, moves[kind], began, over, meeting, leads)
            taken = takes[kind]
            if pace is not None and taken is not None:
                pace.finish(taken)
            me.done += 1
            me.wake()
            skipped += 1
        counted = zip(islice(which, skipped, None), islice(ordinals, skipped, None), strict=True)
        meetings = (
            None if kind < 0 else rest.meeting((*keys[kind][0], ordinal), keys[kind][1])
            for kind, ordinal in counted
        )
        moved = map(moves.__getitem__, islice(which, skipped, None))
        given = None
        if pace is not None:
            given = [None if kind < 0 else takes[kind] for kind in which[skipped:]]
        entries = Communications(*self.waiting(column, skipped), moved, meetings, given)
        yield from run_transfers(me, entries, rest.network, pace)

    def _started(
        self, me: Stream, moves: Moves, began: int, over: int, meeting: Meeting | None, leads: bool
    ) -> SimEvents:
        """What is left of an entry in flight; one of those who meet sees to the bytes."""
        env = me.env
        if leads:
            if isinstance(moves, Transfer):
                yield from self.rest.network.resume(moves, began)
            else:
                yield env.timeout(over - self.rest.time)
            if meeting is not None and meeting.over is not None:
                meeting.over.succeed()
        else:
            assert meeting is not None
            if meeting.over is None:
                meeting.over = simpy.Event(env)
            yield meeting.over
        me.starts.append(began)
        me.ends.append(int(env.now))

    def _done_by(
        self, column: int
    ) -> tuple[list[Moves], Mapping[int, tuple[Key, int, bool]], list[ResourceShare | None]]:
        """By kind what a column moves (last: nothing), who meets, how many, and whether it leads them, and
        what it gives to that where kernels give way.
        """
        stage, program = self.part.stage, self.rest.program
        moves: list[Moves] = []
        takes: list[ResourceShare | None] = []
        keys = {}
        for number, (code, index) in enumerate(self.kinds.places):
            priced = stage.priced[code]
            carried = priced.carried.get(index)
            if carried is None:
                moves.append(int(priced.duration[index, column]))
            else:
                moves.append(carried.transfers[carried.which[column]])
            takes.append(priced.takes[index].of(column) if index in priced.takes else None)
            keys[number] = self._key(int(stage.columns[column]), program.codes[code].instructions[index])
        return [*moves, 0], keys, takes

    def _key(self, index: int, each: Instruction) -> tuple[Key, int, bool]:
        classes = self.rest.classes
        if each.group:
            group = classes.groups[index, each.group]
            return (each.stream, group.id), len(group.members), group.members[0] == index
        sends = each.action is InstructionKind.SEND
        stream = each.stream if sends else SENDER_OF[each.stream]
        peers = classes.next_stage if peer_is_next_stage(each.stream) else classes.prev_stage
        peer = peers[index][0]
        return (stream, *((index, peer) if sends else (peer, index))), 2, sends
