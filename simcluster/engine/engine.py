"""The engine: a Program on a cluster, in time.

It prices the codes per class, links their executions, runs one SimPy process per stream and hands back when
every entry started.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import simpy
from numpy.typing import NDArray

from simcluster.cluster import Cluster
from simcluster.cluster.communication import Taken
from simcluster.collectives import AUTOMATIC, Selection
from simcluster.engine.deadlock import HEADING, LATE, STILL, stuck
from simcluster.engine.fabric import NO_LINKS, Fabric, Transfer
from simcluster.engine.flows import Network
from simcluster.engine.linked import LinkedClass, LinkedStream, link
from simcluster.engine.lodger import Lodger, Progress, no_collection
from simcluster.engine.meetings import SENDER_OF
from simcluster.engine.merged import merged
from simcluster.engine.pace import Pace, segments_of, stretched_times
from simcluster.engine.streams import (
    Communications,
    Kernels,
    Meeting,
    Moves,
    SimEvents,
    Stream,
    run_beside,
    run_kernels,
    run_transfers,
)
from simcluster.engine.swept import Method, swept
from simcluster.engine.timed import NOTHING, TimedCode
from simcluster.engine.timing import ClassTiming, Timing
from simcluster.errors import PlanError, SimulationError
from simcluster.program import COMPUTE, Action, Classes, Instruction, Program
from simcluster.program.calls import FREE_CALLS, HostCalls

Ints = NDArray[np.int64]


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
    alone = Lodger(program, cluster, classes, steps, dispatch, algorithms, fabric, host)
    return run_together([alone], progress, method)[0]


def _run_until(over: simpy.Event) -> None:
    """Lets time pass until an event, or until nothing happens any more."""
    try:
        while not over.processed:
            over.env.step()
    except simpy.core.EmptySchedule:
        return


def run_together(
    lodgers: Sequence[Lodger], progress: Progress | None = None, method: Method | None = None
) -> list[Timing]:
    """Runs Programs at once on the links they share, and says for each what it did in its own ``steps``.

    Whoever is through with them begins them anew, until all are, so that all of every Program's steps meet
    the traffic of all others. Every one of them must be able to end alone: nobody waits for another. The
    flows and re-solves in the timings are those of all together. One alone may be swept, as ``run`` says.
    Raises as ``run`` does.
    """
    links = lodgers[0].fabric.links if lodgers[0].fabric else NO_LINKS
    if len(lodgers) > 1 and any(each.fabric is None or each.fabric.links is not links for each in lodgers):
        raise ValueError("Programs that run at once need fabrics with common links")
    watched, env = progress or Progress(), simpy.Environment()
    try:
        found = swept(lodgers[0], watched, method) if len(lodgers) == 1 else None
        if found is not None:
            return [found]
        watched.ended = 0
        engines = [_Engine(each, env) for each in lodgers]
        rounds = [engine.round() for engine in engines]
        watched.env, watched.streams = env, [each for found in rounds for each in found.every]
        watched.total = sum(stream.length for stream in watched.streams)
        network = Network(env, merged(links))
        over = simpy.Event(env)
        waiting = set(range(len(engines)))

        def again(number: int) -> SimEvents:
            """Round after round of one Program."""
            engine, now = engines[number], rounds[number]
            while waiting:
                yield env.all_of(engine.start(now, network))
                waiting.discard(number)
                now = engine.round()
            if not over.triggered:
                over.succeed()

        with no_collection():
            if len(engines) == 1:
                engines[0].start(rounds[0], network)
                env.run()
            else:
                for number in range(len(engines)):
                    env.process(again(number))
                _run_until(over)
        # What changes on the links after the last entry does not count.
        counts = network.num_flows, network.num_solves
        return [engine.timing(own, *counts) for engine, own in zip(engines, rounds, strict=True)]
    except OverflowError:
        raise PlanError(
            "the run takes longer than 292 years, all that 64 bits of nanoseconds hold",
            hint="look at the sizes of the model and the rates of the devices",
        ) from None


Met = tuple[tuple[object, ...], int]
"""Who meets, which of their meetings on this stream it is, and how many they are."""


@dataclass(frozen=True)
class _Round:
    """The streams of every class [classes][streams] in one run through all steps, the paces of their kernels,
    and who has met.
    """

    streams: Sequence[Sequence[Stream]]
    paces: Sequence[Pace | None]
    meetings: dict[tuple[object, ...], Meeting]

    @property
    def every(self) -> list[Stream]:
        """All streams."""
        return [stream for found in self.streams for stream in found]


class _Engine:
    """One Program, lowered for its classes."""

    def __init__(self, lodger: Lodger, env: simpy.Environment) -> None:
        self.program, self.cluster, self.classes = lodger.program, lodger.cluster, lodger.classes
        self.steps, self.fabric = lodger.steps, lodger.fabric
        self.env = env
        self.known: dict[tuple[object, ...], tuple[dict[int, TimedCode], LinkedClass]] = {}
        self.prices = lodger.prices()
        self.choices = self.prices.choices
        lowered = [self._lowered(index) for index in range(len(self.classes))]
        self.codes = [codes for codes, _ in lowered]
        self.linked = [linked for _, linked in lowered]
        self.met: dict[tuple[int, str], tuple[list[Moves], list[Met | None]]] = {}
        self.mets: dict[tuple[object, ...], Met] = {}

    def round(self) -> _Round:
        """Streams that have done nothing yet."""
        return _Round(
            [[Stream(each.name, self.env, len(each)) for each in found.streams] for found in self.linked],
            [self._pace(index, found) for index, found in enumerate(self.linked)],
            {},
        )

    def start(self, now: _Round, network: Network) -> list[simpy.Process]:
        """Lets the streams run; the processes that do it."""
        processes = []
        for index, (found, pace) in enumerate(zip(self.linked, now.paces, strict=True)):
            for stream, each in zip(now.streams[index], found.streams, strict=True):
                waits = self._waits(each, now.streams[index])
                if each.name == COMPUTE:
                    kernels = Kernels(*waits, each.duration.tolist())
                    if pace:
                        process = run_beside(stream, kernels, segments_of(found, self.codes[index]), pace)
                    else:
                        process = run_kernels(stream, kernels)
                else:
                    moves, met = self._communications(index, each, found)
                    meetings = [self._meeting(entry, now) for entry in met]
                    takes = self._takes(index, each, found) if pace else None
                    process = run_transfers(
                        stream, Communications(*waits, moves, meetings, takes), network, pace
                    )
                processes.append(self.env.process(process))
        return processes

    def timing(self, done: _Round, num_flows: int, num_solves: int) -> Timing:
        """What a round that is over has recorded; SimulationError if it never ended."""
        if any(stream.done < stream.length for stream in done.every):
            raise SimulationError(*self._stuck(done))
        timings = [
            _class_timing(found, codes, streams, pace)
            for found, codes, streams, pace in zip(
                self.linked, self.codes, done.streams, done.paces, strict=True
            )
        ]
        end = max((int(ends[-1]) for timing in timings for ends in timing.ends if len(ends)), default=0)
        return Timing(timings, end, sum(stream.length for stream in done.every), num_flows, num_solves)

    @staticmethod
    def _meeting(met: Met | None, now: _Round) -> Meeting | None:
        if met is None:
            return None
        key, size = met
        if key not in now.meetings:
            now.meetings[key] = Meeting(size)
        return now.meetings[key]

    # -- prices -----------------------------------------------------------------------------------------

    def _lowered(self, index: int) -> tuple[dict[int, TimedCode], LinkedClass]:
        """A class's codes, priced, and its executions, linked; classes that differ in nothing share them."""
        rank = self.classes.representatives[index]
        part = self.program.part_of(rank)
        places = tuple(
            self.classes.groups[index, axes].placement if (index, axes) in self.classes.groups else None
            for axes in self.program.groups
        )
        peers = tuple(
            pair[index][1] if index in pair else None
            for pair in (self.classes.next_stage, self.classes.prev_stage)
        )
        key = (part, self.cluster.device(rank), places, peers)
        if key not in self.known:
            used = sorted({execution.code for execution in self.program.parts[part].executions})
            codes = self.prices.timed(index, used)
            self.known[key] = codes, link(self.program, part, codes, self.steps)
        return self.known[key]

    # -- entries ----------------------------------------------------------------------------------------

    @staticmethod
    def _waits(each: LinkedStream, streams: Sequence[Stream]) -> tuple[list[Stream | None], list[int]]:
        """What every entry of a stream waits for: the stream, and how many entries of it must have ended."""
        table: list[Stream | None] = [*streams, None]
        return [table[other] for other in each.wait_stream.tolist()], each.wait_position.tolist()

    def _communications(
        self, index: int, each: LinkedStream, linked: LinkedClass
    ) -> tuple[list[Moves], list[Met | None]]:
        """What every entry of a communication stream moves, and who meets in it."""
        if (index, each.name) in self.met:
            return self.met[index, each.name]
        moves: list[Moves] = each.duration.tolist()
        met: list[Met | None] = [None] * len(each)
        counts: defaultdict[tuple[object, ...], int] = defaultdict(int)
        known: dict[tuple[int, int], Transfer | None] = {}
        for position in np.flatnonzero(each.meeting != NOTHING).tolist():
            execution = linked.executions[each.execution[position]]
            instruction = self.program.codes[execution.code].instructions[each.meeting[position]]
            key, size = self._meeting_key(index, instruction)
            if size > 1:
                counts[key] += 1
                whole = (*key, counts[key])
                met[position] = self.mets.setdefault(whole, (whole, size))
            if self.fabric:
                place = execution.code, int(each.meeting[position])
                if place not in known:
                    known[place] = self.prices.transfer(index, self.program.codes[place[0]], instruction)
                moves[position] = known[place] or moves[position]
        self.met[index, each.name] = moves, met
        return moves, met

    def _pace(self, index: int, linked: LinkedClass) -> Pace | None:
        """Where a class's kernels and its communication share the device."""
        device = self.cluster.device(self.classes.representatives[index])
        return Pace(self.env) if device.communication and len(linked.streams) > 1 else None

    def _takes(self, index: int, each: LinkedStream, linked: LinkedClass) -> list[Taken | None]:
        """What every entry of a communication stream takes of the device."""
        takes: list[Taken | None] = [None] * len(each)
        known: dict[tuple[int, int], Taken | None] = {}
        for position in np.flatnonzero(each.meeting != NOTHING).tolist():
            place = linked.executions[each.execution[position]].code, int(each.meeting[position])
            if place not in known:
                known[place] = self.choices.taken(index, self.program.codes[place[0]].instructions[place[1]])
            takes[position] = known[place]
        return takes

    def _meeting_key(self, index: int, each: Instruction) -> tuple[tuple[object, ...], int]:
        """Who meets: the classes of a group, or sender and receiver; who copies is alone."""
        if each.group:
            group = self.classes.groups[index, each.group]
            return ("group", each.stream, group.id), len(group.members)
        peer, _ = self.choices.peer(index, each)
        sends = each.action is Action.SEND
        stream = each.stream if sends else SENDER_OF[each.stream]
        return ("transfer", stream, *((index, peer) if sends else (peer, index))), 2

    # -- deadlock ---------------------------------------------------------------------------------------

    def _stuck(self, done: _Round) -> list[str]:
        """One line per stuck stream: what it is at and what it waits for."""
        lines = [HEADING]
        for index, found in enumerate(self.linked):
            streams = done.streams[index]
            arrived = [self._held(index, stream, done) for stream in streams]
            over = [stream.done for stream in streams]
            lines += stuck(self.program, self.classes.representatives[index], found, over, arrived)
        return lines

    def _held(self, index: int, stream: Stream, done: _Round) -> str | None:
        """What keeps an entry from ending that has arrived; None if none has."""
        if len(stream.arrivals) <= stream.done:
            return None
        met = self.met[index, stream.name][1][stream.done]
        return LATE if met is not None and done.meetings[met[0]].arrived < met[1] else STILL


def _class_timing(
    linked: LinkedClass, codes: Mapping[int, TimedCode], streams: Sequence[Stream], pace: Pace | None
) -> ClassTiming:
    """What the streams of a class recorded, as columns."""

    def columns(lists: Iterable[Sequence[int]]) -> list[Ints]:
        return [np.array(each, dtype=np.int64) for each in lists]

    starts = columns(stream.starts for stream in streams)
    ends = columns(stream.ends for stream in streams)
    kernels = next(number for number, each in enumerate(linked.streams) if each.name == COMPUTE)
    ends[kernels] = starts[kernels] + linked.streams[kernels].duration
    stretched = stretched_times(pace, starts[kernels])
    ends[kernels][stretched["entry"]] = stretched["end"]  # of several the last stays
    return ClassTiming(linked, codes, starts, columns(stream.arrivals for stream in streams), ends, stretched)
