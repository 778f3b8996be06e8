"""The engine: a Program on a cluster, in time.

It prices the codes per class, links their executions, runs one SimPy process per stream and hands back when
every entry started.
"""

from __future__ import annotations

import enum
import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import numpy as np
import simpy
from numpy.typing import NDArray

from simcluster.cluster import Cluster
from simcluster.collectives import AUTOMATIC, Selection
from simcluster.engine.check import first_meeting
from simcluster.engine.choices import Choices
from simcluster.engine.deadlock import HEADING, LATE, STILL, stuck
from simcluster.engine.fabric import NO_LINKS, Fabric, Transfer
from simcluster.engine.flights import flights
from simcluster.engine.flows import Network
from simcluster.engine.linked import LinkedClass, LinkedStream, link
from simcluster.engine.meetings import SENDER_OF
from simcluster.engine.merged import merged
from simcluster.engine.prices import Prices, Uneven
from simcluster.engine.rest import Rest
from simcluster.engine.stage import Stage
from simcluster.engine.streams import (
    Communications,
    Kernels,
    Meeting,
    Moves,
    Stream,
    run_kernels,
    run_transfers,
)
from simcluster.engine.sweep import sweep
from simcluster.engine.timed import NOTHING, TimedCode, timed
from simcluster.engine.timing import ClassTiming, SweptClasses, Timing
from simcluster.errors import PlanError, SimulationError
from simcluster.program import COMPUTE, Action, Classes, Instruction, Program
from simcluster.program.calls import FREE_CALLS, Calls, HostCalls
from simcluster.program.wanted import Wants

Ints = NDArray[np.int64]


@dataclass
class Progress:
    """How far a running engine is, for whoever watches from another thread."""

    env: simpy.Environment | None = None
    streams: list[Stream] = field(default_factory=list)
    total: int = 0
    ended: int = 0
    time: int = 0

    def swept(self, ended: int, time: int) -> None:
        """Told by a sweep: entries ended so far, and a time (ns) of now."""
        self.ended, self.time = ended, max(time, self.time)

    @property
    def now(self) -> float:
        """Simulated seconds."""
        return float(self.env.now if self.env is not None else self.time) * 1e-9

    @property
    def done(self) -> int:
        """Entries that have ended."""
        return self.ended + sum(stream.done for stream in self.streams)


def run(
    program: Program,
    cluster: Cluster,
    classes: Classes,
    *,
    steps: int = 1,
    dispatch: float = 1.0,
    algorithms: Selection = AUTOMATIC,
    fabric: Fabric | None = None,
    host: HostCalls = FREE_CALLS,
    progress: Progress | None = None,
    method: Method | None = None,
) -> Timing:
    """Runs the Program ``steps`` times over; SimulationError names who waits for whom if it cannot end.

    ``dispatch`` scales the devices' host time per operator; ``algorithms`` are those of collectives, ``host``
    what it spends on these. Links of the ``fabric`` are shared; without one, every collective and transfer
    takes what it would alone.

    With events or by a sweep: the faster of the two, unless ``method`` says. The times are the same.
    """
    choices = Choices(classes, cluster, Wants(program, algorithms))
    prices = Prices(program, choices, Calls.of(program, host), dispatch, fabric)
    try:
        return _Engine(program, classes, steps, prices, progress or Progress(), method).run()
    except OverflowError:
        raise PlanError(
            "the run takes longer than 292 years, all that 64 bits of nanoseconds hold",
            hint="look at the sizes of the model and the rates of the devices",
        ) from None


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keeps the cyclic garbage collector still: events live briefly and hold no cycles worth looking for."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Method(enum.StrEnum):
    """How a Program is timed; both give the same times."""

    EVENTS = "events"
    SWEEP = "sweep"


MANY = 8
"""Classes of a stage from which on they are swept.

A sweep times an entry in a few NumPy calls, whatever the number of classes; events cost as much again for
every class. For one class of a stage they take about half the time of a sweep, for two as much, for eight
seven times as long. A few classes are left to events all the same: a sweep also looks for their peaks in a
way that only pays for many.
"""


@dataclass
class _Engine:
    program: Program
    classes: Classes
    steps: int
    prices: Prices
    progress: Progress
    method: Method | None

    def run(self) -> Timing:
        self.known: dict[tuple[object, ...], tuple[dict[int, TimedCode], LinkedClass]] = {}
        if self.method is not Method.EVENTS and (self.method or len(self.classes) >= MANY * self._num_stages):
            with suppress(Uneven):
                return self._swept()
        return self._events()

    @property
    def _num_stages(self) -> int:
        return len(self.program.stages)

    # -- sweep ------------------------------------------------------------------------------------------

    def _swept(self) -> Timing:
        members: list[list[int]] = [[] for _ in range(self._num_stages)]
        for index, rank in enumerate(self.classes.representatives):
            members[self.program.stage_of(rank)].append(index)
        stages = [
            Stage.of(self.program, number, indices, self.prices, self.steps)
            for number, indices in enumerate(members)
        ]
        self.progress.total = sum(stage.num_entries * len(stage.columns) for stage in stages)
        swept = sweep(self.program, self.classes, stages, self.progress.swept)
        num_flows = num_solves = 0
        if self.prices.fabric:
            links = merged(self.prices.fabric.links)
            flown = flights(self.program, self.classes, swept)
            num_flows = sum(each.num_flows for each in flown)
            since = first_meeting(flown, links)
            del flown
            if since is not None:
                rest = Rest(self.program, self.classes, swept, links, since)
                self.progress.env, self.progress.streams, self.progress.ended = rest.env, rest.streams, 0
                with _no_collection():
                    found = rest.run()
                if found is None:
                    return self._events()
                swept, num_solves = found, rest.network.num_solves
        classes = SweptClasses.of(swept, self._codes)
        return Timing(classes, swept.end, swept.num_entries, num_flows, num_solves, swept)

    # -- events -----------------------------------------------------------------------------------------

    def _events(self) -> Timing:
        self.meetings: dict[tuple[object, ...], Meeting] = {}
        self.met: dict[tuple[int, str], Sequence[Meeting | None]] = {}
        fabric = self.prices.fabric
        self.progress.ended = 0
        self.env = simpy.Environment()
        lowered = [self._lowered(index) for index in range(len(self.classes))]
        codes, linked = [each for each, _ in lowered], [each for _, each in lowered]
        streams = [[Stream(each.name, self.env, len(each)) for each in found.streams] for found in linked]
        every = [stream for found in streams for stream in found]
        self.progress.env, self.progress.streams = self.env, every
        self.progress.total = sum(stream.length for stream in every)
        network = Network(self.env, merged(fabric.links) if fabric else NO_LINKS)
        for index, found in enumerate(linked):
            for stream, each in zip(streams[index], found.streams, strict=True):
                waits = self._waits(each, streams[index])
                if each.name == COMPUTE:
                    process = run_kernels(stream, Kernels(*waits, each.duration.tolist()))
                else:
                    met = self._communications(index, each, found)
                    process = run_transfers(stream, Communications(*waits, *met), network)
                self.env.process(process)
        with _no_collection():
            self.env.run()
        if any(stream.done < stream.length for stream in every):
            raise SimulationError(HEADING, *self._stuck(streams, linked))
        timings = [_class_timing(found, codes[index], streams[index]) for index, found in enumerate(linked)]
        # What changes on the links after the last entry does not count.
        end = max((int(ends[-1]) for timing in timings for ends in timing.ends if len(ends)), default=0)
        return Timing(timings, end, self.progress.total, network.num_flows, network.num_solves)

    # -- prices -----------------------------------------------------------------------------------------

    def _lowered(self, index: int) -> tuple[dict[int, TimedCode], LinkedClass]:
        """A class's codes, priced, and its executions, linked; classes that differ in nothing share them."""
        rank = self.classes.representatives[index]
        stage = self.program.stage_of(rank)
        places = tuple(
            self.classes.groups[index, axes].placement if (index, axes) in self.classes.groups else None
            for axes in self.program.groups
        )
        peers = tuple(
            pair[index][1] if index in pair else None
            for pair in (self.classes.next_stage, self.classes.prev_stage)
        )
        key = (stage, self.prices.cluster.device(rank), places, peers)
        if key not in self.known:
            used = sorted({execution.code for execution in self.program.stages[stage].executions})
            codes = self._codes(index, used)
            self.known[key] = codes, link(self.program, stage, codes, self.steps)
        return self.known[key]

    def _codes(self, index: int, used: Sequence[int]) -> dict[int, TimedCode]:
        """The codes of a class, priced."""
        codes = self.program.codes
        return {code: timed(codes[code], self.prices.pricer(index, codes[code])) for code in used}

    # -- entries ----------------------------------------------------------------------------------------

    @staticmethod
    def _waits(each: LinkedStream, streams: Sequence[Stream]) -> tuple[list[Stream | None], list[int]]:
        """What every entry of a stream waits for: the stream, and how many entries of it must have ended."""
        table: list[Stream | None] = [*streams, None]
        return [table[other] for other in each.wait_stream.tolist()], each.wait_position.tolist()

    def _communications(
        self, index: int, each: LinkedStream, linked: LinkedClass
    ) -> tuple[list[Moves], list[Meeting | None]]:
        """What every entry of a communication stream moves, and who meets in it."""
        moves: list[Moves] = each.duration.tolist()
        meetings: list[Meeting | None] = [None] * len(each)
        counts: defaultdict[tuple[object, ...], int] = defaultdict(int)
        known: dict[tuple[int, int], Transfer | None] = {}
        for position in np.flatnonzero(each.meeting != NOTHING).tolist():
            execution = linked.executions[each.execution[position]]
            instruction = self.program.codes[execution.code].instructions[each.meeting[position]]
            key, size = self._meeting_key(index, instruction)
            if size > 1:
                counts[key] += 1
                meetings[position] = self.meetings.setdefault((*key, counts[key]), Meeting(size))
            if self.prices.fabric:
                place = execution.code, int(each.meeting[position])
                if place not in known:
                    known[place] = self.prices.transfer(index, self.program.codes[place[0]], instruction)
                moves[position] = known[place] or moves[position]
        self.met[index, each.name] = meetings
        return moves, meetings

    def _meeting_key(self, index: int, each: Instruction) -> tuple[tuple[object, ...], int]:
        """Who meets: the classes of a group, or sender and receiver."""
        if each.action is Action.COLLECTIVE:
            group = self.classes.groups[index, each.group]
            return ("group", each.stream, group.id), len(group.members)
        peer, _ = self.prices.choices.peer(index, each)
        sends = each.action is Action.SEND
        stream = each.stream if sends else SENDER_OF[each.stream]
        return ("transfer", stream, *((index, peer) if sends else (peer, index))), 2

    def _stuck(self, streams: Sequence[Sequence[Stream]], linked: Sequence[LinkedClass]) -> list[str]:
        """One line per stuck stream of every class."""
        lines = []
        for index, found in enumerate(linked):
            arrived = [self._held(index, stream) for stream in streams[index]]
            done = [stream.done for stream in streams[index]]
            lines += stuck(self.program, self.classes.representatives[index], found, done, arrived)
        return lines

    def _held(self, index: int, stream: Stream) -> str | None:
        """What keeps an entry from ending that has arrived; None if none has."""
        if len(stream.arrivals) <= stream.done:
            return None
        meeting = self.met[index, stream.name][stream.done]
        return LATE if meeting is not None and meeting.arrived < meeting.size else STILL


def _class_timing(
    linked: LinkedClass, codes: Mapping[int, TimedCode], streams: Sequence[Stream]
) -> ClassTiming:
    """What the streams of a class recorded, as columns."""

    def columns(lists: Iterable[Sequence[int]]) -> list[Ints]:
        return [np.array(each, dtype=np.int64) for each in lists]

    starts = columns(stream.starts for stream in streams)
    ends = columns(stream.ends for stream in streams)
    for number, each in enumerate(linked.streams):
        if each.name == COMPUTE:
            ends[number] = starts[number] + each.duration
    return ClassTiming(linked, codes, starts, columns(stream.arrivals for stream in streams), ends)
