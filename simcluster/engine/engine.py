"""The engine: a Program on a cluster, in time.

Codes are priced per class and their executions linked. One SimPy process per stream says what happens; the
compiled loop or a sweep gives the same times sooner. Handed back is when every entry started and ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import simpy
from numpy.typing import NDArray

from simcluster.cluster import DEVICES_OWN, Cluster, DispatchTime
from simcluster.collectives import AUTOMATIC, Selection
from simcluster.engine.class_meetings import Who
from simcluster.engine.coalesced_links import coalesce_links
from simcluster.engine.deadlock import HEADING, LATE, STILL
from simcluster.engine.fabric import NO_LINKS, Fabric, Links
from simcluster.engine.flows import Network
from simcluster.engine.implementation import Implementation, choose_implementation
from simcluster.engine.pace import Pace, stretched_times
from simcluster.engine.priced_classes import PricedClasses, PricedCommunications
from simcluster.engine.priced_program import PricedProgram
from simcluster.engine.streams import (
    Communications,
    Kernels,
    Meeting,
    SimEvents,
    Stream,
    run_kernels,
    run_slowed_kernels,
    run_transfers,
)
from simcluster.engine.swept import swept
from simcluster.engine.timed import NOTHING
from simcluster.engine.timing import ClassTiming, Timing
from simcluster.engine.workload import Progress, Workload, no_collection
from simcluster.errors import PlanError, SimulationError
from simcluster.program import (
    COMPUTE,
    FREE_CALLS,
    HostCalls,
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
    implementation: Implementation | None = None,
) -> Timing:
    """Runs the Program ``steps`` times over; SimulationError names who waits for whom if it cannot end.

    ``dispatch`` is the host time per operator; ``algorithms`` are those of collectives, ``host`` what it
    spends on these. Links of the ``fabric`` are shared; without one, every collective and transfer
    takes what it would alone.

    ``implementation``: what times it; absent, what ends soonest. The times are the same.
    """
    alone = Workload(program, cluster, classes, steps, dispatch, algorithms, fabric, host)
    return run_together([alone], progress, implementation)[0]


def _run_until(over: simpy.Event) -> None:
    """Lets time pass until an event, or until nothing happens any more."""
    try:
        while not over.processed:
            over.env.step()
    except simpy.core.EmptySchedule:
        return


def run_together(
    workloads: Sequence[Workload],
    progress: Progress | None = None,
    implementation: Implementation | None = None,
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
        timing = swept(workloads[0], watched, implementation) if len(workloads) == 1 else None
        if timing is not None:
            return [timing]
        # What the events leave behind goes before anybody looks for cycles in it.
        with no_collection():
            classes = [PricedClasses(workload) for workload in workloads]
            fewer = coalesce_links(links)
            chosen = implementation or choose_implementation(
                sum(workload.num_entries for workload in classes)
            )
            if chosen is Implementation.COMPILED:
                return _compiled(classes, fewer, watched)
            return _by_events(classes, fewer, watched)
    except OverflowError:
        raise PlanError(
            "the run takes longer than 292 years, all that 64 bits of nanoseconds hold",
            hint="look at the sizes of the model and the rates of the devices",
        ) from None


def _compiled(workloads: Sequence[PricedClasses], links: Links, watched: Progress) -> list[Timing]:
    """What ``run_together`` does by machine code, for which the compiler is imported now."""
    from simcluster.engine.compiled import run_compiled

    return run_compiled(workloads, links, watched)


def _by_events(workloads: Sequence[PricedClasses], links: Links, watched: Progress) -> list[Timing]:
    """What ``run_together`` does by processes: the definition of what happens."""
    env = simpy.Environment()
    watched.ended = 0
    engines = [_Engine(classes, env) for classes in workloads]
    rounds = [engine.round() for engine in engines]
    watched.env, watched.streams = env, [stream for one in rounds for stream in one.every]
    watched.total = sum(stream.length for stream in watched.streams)
    network = Network(env, links)
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

    def met(self, done: PricedCommunications) -> list[Meeting | None]:
        """Where those meet who do this, by entry."""
        most = int(done.kinds.ordinals.max(initial=0)) + 1
        meetings: list[list[Meeting] | None] = []
        for meeting in done.met:
            own = None
            if meeting is not None:
                own = self.meetings[meeting[0]]
                own += [Meeting(meeting[1]) for _ in range(most - len(own))]
            meetings.append(own)
        return [
            None if kind == NOTHING or (own := meetings[kind]) is None else own[ordinal]
            for kind, ordinal in zip(done.kinds.which.tolist(), done.kinds.ordinals.tolist(), strict=True)
        ]


class _Engine:
    """One Program in time, by processes."""

    def __init__(self, classes: PricedClasses, env: simpy.Environment) -> None:
        self.classes, self.env = classes, env

    def round(self) -> _Round:
        """Streams that have done nothing yet."""
        return _Round(
            [
                [Stream(stream.name, self.env, len(stream)) for stream in priced.linked.streams]
                for priced in self.classes.programs
            ],
            [
                Pace(self.env) if self.classes.slows(index) else None
                for index in range(len(self.classes.programs))
            ],
            defaultdict(list),
        )

    def start(self, now: _Round, network: Network) -> list[simpy.Process]:
        """Lets the streams run; the processes that do it."""
        processes = []
        for index, (lowered, pace) in enumerate(zip(self.classes.programs, now.paces, strict=True)):
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
                    done = self.classes.communications(index, number)
                    which = done.kinds.which.tolist()
                    # The last kind, which is that of number NOTHING, only waits.
                    moves = map([*done.moves, 0].__getitem__, which)
                    takes = map([*done.takes, None].__getitem__, which) if pace else None
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
            for priced, streams, pace in zip(self.classes.programs, done.streams, done.paces, strict=True)
        ]
        end = max((int(ends[-1]) for timing in timings for ends in timing.ends if len(ends)), default=0)
        return Timing(timings, end, sum(stream.length for stream in done.every), num_flows, num_solves)

    def _stuck(self, done: _Round) -> list[str]:
        """One line per stuck stream: what it is at and what it waits for."""
        over = [[stream.done for stream in streams] for streams in done.streams]
        held = [
            [self._held(index, number, done) for number in range(len(streams))]
            for index, streams in enumerate(done.streams)
        ]
        return [HEADING, *self.classes.stuck(over, held)]

    def _held(self, index: int, number: int, done: _Round) -> str | None:
        """What keeps an entry from ending that has arrived; None if none has."""
        stream = done.streams[index][number]
        if len(stream.arrivals) <= stream.done:
            return None
        meeting = done.met(self.classes.communications(index, number))[stream.done]
        return LATE if meeting is not None and meeting.arrived < meeting.size else STILL


def _class_timing(priced: PricedProgram, streams: Sequence[Stream], pace: Pace | None) -> ClassTiming:
    """What the streams of a class recorded, as columns."""
    linked, kernels = priced.linked, priced.compute

    def columns(lists: Iterable[Sequence[int]]) -> list[Ints]:
        return [np.array(times, dtype=np.int64) for times in lists]

    starts = columns(stream.starts for stream in streams)
    ends = columns(stream.ends for stream in streams)
    ends[kernels] = starts[kernels] + linked.streams[kernels].duration
    stretched = stretched_times(pace, starts[kernels])
    ends[kernels][stretched["entry"]] = stretched["end"]  # of several the last stays
    return ClassTiming(
        linked, priced.codes, starts, columns(stream.arrivals for stream in streams), ends, stretched
    )
