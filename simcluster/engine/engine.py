"""The engine: a Program on a cluster, in time.

It prices the codes per class, links their executions, runs one SimPy process per stream and hands back when
every entry started.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import simpy
from numpy.typing import NDArray

from simcluster.cluster import DEVICES_OWN, Cluster, DispatchTime, ResourceShare
from simcluster.collectives import AUTOMATIC, Selection
from simcluster.engine.class_program import ClassProgram, link
from simcluster.engine.coalesced_links import coalesce_links
from simcluster.engine.deadlock import HEADING, LATE, STILL, stuck
from simcluster.engine.entry_types import EntryTypes
from simcluster.engine.fabric import NO_LINKS, Fabric, Links
from simcluster.engine.flows import Network
from simcluster.engine.pace import Pace, stretched_times
from simcluster.engine.priced_program import PricedProgram
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
from simcluster.engine.swept import Method, swept
from simcluster.engine.timing import ClassTiming, Timing
from simcluster.engine.workload import Progress, Workload, no_collection
from simcluster.errors import PlanError, SimulationError
from simcluster.program import (
    COMPUTE,
    FREE_CALLS,
    SENDER_OF,
    HostCalls,
    Instruction,
    InstructionKind,
    Program,
    RankClasses,
)

Ints = NDArray[np.int64]


def run(
    program: Program,
    cluster: Cluster,
    classes: RankClasses,
    *,
    steps: int = 1,
    dispatch: DispatchTime = DEVICES_OWN,
    algorithms: Selection = AUTOMATIC,
    fabric: Fabric | None = None,
    host: HostCalls = FREE_CALLS,
    progress: Progress | None = None,
    method: Method | None = None,
) -> Timing:
    """Runs the Program ``steps`` times over; SimulationError names who waits for whom if it cannot end.

    ``dispatch`` is the host time per operator; ``algorithms`` are those of collectives, ``host`` what it
    spends on these. Links of the ``fabric`` are shared; without one, every collective and transfer
    takes what it would alone.

    With events or by a sweep: the faster of the two, unless ``method`` says. The times are the same.
    """
    alone = Workload(program, cluster, classes, steps, dispatch, algorithms, fabric, host)
    return run_together([alone], progress, method)[0]


def _run_until(over: simpy.Event) -> None:
    """Lets time pass until an event, or until nothing happens any more."""
    try:
        while not over.processed:
            over.env.step()
    except simpy.core.EmptySchedule:
        return


def run_together(
    workloads: Sequence[Workload], progress: Progress | None = None, method: Method | None = None
) -> list[Timing]:
    """Runs Programs at once on the links they share, and says for each what it did in its own ``steps``.

    Whoever is through with them begins them anew, until all are, so that all of every Program's steps meet
    the traffic of all others. Every one of them must be able to end alone: nobody waits for another. The
    flows and re-solves in the timings are those of all together. One alone may be swept, as ``run`` says.
    Raises as ``run`` does.
    """
    links = workloads[0].fabric.links if workloads[0].fabric else NO_LINKS
    if len(workloads) > 1 and any(
        workload.fabric is None or workload.fabric.links is not links for workload in workloads
    ):
        raise ValueError("Programs that run at once need fabrics with common links")
    watched = progress or Progress()
    try:
        timing = swept(workloads[0], watched, method) if len(workloads) == 1 else None
        # What the events leave behind goes before anybody looks for cycles in it.
        with no_collection():
            return [timing] if timing is not None else _by_events(workloads, links, watched)
    except OverflowError:
        raise PlanError(
            "the run takes longer than 292 years, all that 64 bits of nanoseconds hold",
            hint="look at the sizes of the model and the rates of the devices",
        ) from None


def _by_events(workloads: Sequence[Workload], links: Links, watched: Progress) -> list[Timing]:
    """What ``run_together`` does where no sweep can."""
    env = simpy.Environment()
    watched.ended = 0
    engines = [_Engine(workload, env) for workload in workloads]
    rounds = [engine.round() for engine in engines]
    watched.env, watched.streams = env, [stream for one in rounds for stream in one.every]
    watched.total = sum(stream.length for stream in watched.streams)
    network = Network(env, coalesce_links(links))
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


Who = tuple[object, ...]
"""Who meets on a stream, again and again."""


@dataclass(frozen=True)
class _Done:
    """What a class does on a communication stream, by kind of its entries; the last kind only waits.

    ``met`` says who meets and how many they are, where there are several.
    """

    kinds: EntryTypes
    moves: list[Moves]
    takes: list[ResourceShare | None]
    met: list[tuple[Who, int] | None]


@dataclass(frozen=True)
class _Round:
    """The streams of every class [classes][streams] in one run through all steps, the paces of their kernels,
    and by who meets how often they have met.
    """

    streams: Sequence[Sequence[Stream]]
    paces: Sequence[Pace | None]
    meetings: defaultdict[Who, list[Meeting]]

    @property
    def every(self) -> list[Stream]:
        """All streams."""
        return [stream for streams in self.streams for stream in streams]

    def met(self, done: _Done) -> list[Meeting | None]:
        """Where those meet who do this, by entry."""
        most = max(done.kinds.ordinals, default=0) + 1
        meetings: list[list[Meeting] | None] = []
        for meeting in done.met:
            own = None
            if meeting is not None:
                own = self.meetings[meeting[0]]
                own += [Meeting(meeting[1]) for _ in range(most - len(own))]
            meetings.append(own)
        return [
            None if (own := meetings[kind]) is None else own[ordinal]
            for kind, ordinal in zip(done.kinds.which, done.kinds.ordinals, strict=True)
        ]


class _Engine:
    """One Program, lowered for its classes."""

    def __init__(self, workload: Workload, env: simpy.Environment) -> None:
        self.program, self.cluster, self.classes = workload.program, workload.cluster, workload.classes
        self.steps, self.fabric = workload.steps, workload.fabric
        self.env = env
        self.known: dict[tuple[object, ...], PricedProgram] = {}
        self.prices = workload.prices()
        self.choices = self.prices.choices
        self.lowered = [self._lowered(index) for index in range(len(self.classes))]
        self.linked = [program.linked for program in self.lowered]
        self.done: dict[tuple[int, int], _Done] = {}

    def round(self) -> _Round:
        """Streams that have done nothing yet."""
        return _Round(
            [
                [Stream(stream.name, self.env, len(stream)) for stream in linked.streams]
                for linked in self.linked
            ],
            [self._pace(index, linked) for index, linked in enumerate(self.linked)],
            defaultdict(list),
        )

    def start(self, now: _Round, network: Network) -> list[simpy.Process]:
        """Lets the streams run; the processes that do it."""
        processes = []
        for index, (lowered, pace) in enumerate(zip(self.lowered, now.paces, strict=True)):
            for number, linked in enumerate(lowered.linked.streams):
                stream = now.streams[index][number]
                table: list[Stream | None] = [*now.streams[index], None]
                waits = map(table.__getitem__, lowered.waits[number][0]), lowered.waits[number][1]
                if linked.name == COMPUTE:
                    kernels = Kernels(*waits, lowered.durations)
                    if pace:
                        process = run_slowed_kernels(stream, kernels, lowered.segments, pace)
                    else:
                        process = run_kernels(stream, kernels)
                else:
                    done = self._done(index, number)
                    moves = map(done.moves.__getitem__, done.kinds.which)
                    takes = map(done.takes.__getitem__, done.kinds.which) if pace else None
                    entries = Communications(*waits, moves, now.met(done), takes)
                    process = run_transfers(stream, entries, network, pace)
                processes.append(self.env.process(process))
        return processes

    def timing(self, done: _Round, num_flows: int, num_solves: int) -> Timing:
        """What a round that is over has recorded; SimulationError if it never ended."""
        if any(stream.done < stream.length for stream in done.every):
            raise SimulationError(*self._stuck(done))
        timings = [
            _class_timing(priced, streams, pace)
            for priced, streams, pace in zip(self.lowered, done.streams, done.paces, strict=True)
        ]
        end = max((int(ends[-1]) for timing in timings for ends in timing.ends if len(ends)), default=0)
        return Timing(timings, end, sum(stream.length for stream in done.every), num_flows, num_solves)

    # -- prices -----------------------------------------------------------------------------------------

    def _lowered(self, index: int) -> PricedProgram:
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
            self.known[key] = PricedProgram(codes, link(self.program, part, codes, self.steps))
        return self.known[key]

    # -- entries ----------------------------------------------------------------------------------------

    def _done(self, index: int, number: int) -> _Done:
        """What a class does on one of its communication streams."""
        if (index, number) in self.done:
            return self.done[index, number]
        lowered = self.lowered[index]
        kinds = lowered.kinds(self.program, number)
        moves: list[Moves] = []
        takes: list[ResourceShare | None] = []
        met: list[tuple[Who, int] | None] = []
        for code, place in kinds.places:
            instruction = self.program.codes[code].instructions[place]
            transfer = self.prices.transfer(index, self.program.codes[code], instruction)
            moves.append(transfer or lowered.alone(code, place))
            takes.append(self.choices.taken(index, instruction))
            who, size = self._who(index, instruction)
            met.append((who, size) if size > 1 else None)
        self.done[index, number] = _Done(kinds, [*moves, 0], [*takes, None], [*met, None])
        return self.done[index, number]

    def _pace(self, index: int, linked: ClassProgram) -> Pace | None:
        """Where a class's kernels and its communication share the device."""
        device = self.cluster.device(self.classes.representatives[index])
        return Pace(self.env) if device.communication and len(linked.streams) > 1 else None

    def _who(self, index: int, instruction: Instruction) -> tuple[Who, int]:
        """Who meets: the classes of a group, or sender and receiver; who copies is alone."""
        if instruction.group:
            group = self.classes.groups[index, instruction.group]
            return ("group", instruction.stream, group.id), len(group.members)
        peer, _ = self.choices.peer(index, instruction)
        sends = instruction.action is InstructionKind.SEND
        stream = instruction.stream if sends else SENDER_OF[instruction.stream]
        return ("transfer", stream, *((index, peer) if sends else (peer, index))), 2

    # -- deadlock ---------------------------------------------------------------------------------------

    def _stuck(self, done: _Round) -> list[str]:
        """One line per stuck stream: what it is at and what it waits for."""
        lines = [HEADING]
        for index, linked in enumerate(self.linked):
            streams = done.streams[index]
            arrived = [self._held(index, number, done) for number in range(len(streams))]
            over = [stream.done for stream in streams]
            lines += stuck(self.program, self.classes.representatives[index], linked, over, arrived)
        return lines

    def _held(self, index: int, number: int, done: _Round) -> str | None:
        """What keeps an entry from ending that has arrived; None if none has."""
        stream = done.streams[index][number]
        if len(stream.arrivals) <= stream.done:
            return None
        meeting = done.met(self._done(index, number))[stream.done]
        return LATE if meeting is not None and meeting.arrived < meeting.size else STILL


def _class_timing(lowered: PricedProgram, streams: Sequence[Stream], pace: Pace | None) -> ClassTiming:
    """What the streams of a class recorded, as columns."""
    linked, kernels = lowered.linked, lowered.compute

    def columns(lists: Iterable[Sequence[int]]) -> list[Ints]:
        return [np.array(times, dtype=np.int64) for times in lists]

    starts = columns(stream.starts for stream in streams)
    ends = columns(stream.ends for stream in streams)
    ends[kernels] = starts[kernels] + linked.streams[kernels].duration
    stretched = stretched_times(pace, starts[kernels])
    ends[kernels][stretched["entry"]] = stretched["end"]  # of several the last stays
    return ClassTiming(
        linked, lowered.codes, starts, columns(stream.arrivals for stream in streams), ends, stretched
    )
