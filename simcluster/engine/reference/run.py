"""Programs in time by processes: one for every stream of every class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

import numpy as np
import simpy

from simcluster.engine.communication import Links, Who
from simcluster.engine.pricing import PricedClasses, PricedGroup, deadlock_error
from simcluster.engine.progress import Progress
from simcluster.engine.reference.flows import NEVER, Network, SimEvents
from simcluster.engine.reference.meetings import Attend, GateCounter, GatedEntries, Latch, Meeting
from simcluster.engine.reference.pace import Pace, Segment, segments_of, slowed_segments
from simcluster.engine.reference.streams import Stream, Waits, run_kernels, run_transfers
from simcluster.engine.timing import GroupTiming, StreamTimes, Timing
from simcluster.program import StepGate


def run_by_processes(workloads: Sequence[PricedClasses], links: Links, progress: Progress) -> list[Timing]:
    """Runs all workloads at once on the same links until each has ended once; SimulationError names who waits
    for whom if that never happens, OverflowError is raised for times beyond 64 bits.
    """
    env = simpy.Environment()
    runs = [_Run(workload, env) for workload in workloads]
    streams = [stream for run in runs for stream in run.every]
    progress.total = sum(stream.length for stream in streams)
    progress.follow(lambda: (sum(stream.done for stream in streams), int(env.now)))
    network = Network(env, links)
    over = simpy.Event(env)
    waiting = set(range(len(runs)))

    def again(number: int) -> SimEvents:
        """Round after round of one workload."""
        run = runs[number]
        while waiting:
            yield env.all_of(run.start(network))
            waiting.discard(number)
            run = _Run(workloads[number], env)
        if not over.triggered:
            over.succeed()

    if len(runs) == 1:
        runs[0].start(network)
        env.run()
    else:
        for number in range(len(runs)):
            env.process(again(number))
        # Until all are over, or nothing happens any more.
        with suppress(simpy.core.EmptySchedule):
            while not over.processed:
                env.step()
    waiting_streams = any(stream.done < stream.length for stream in streams)
    if env.now > NEVER or (waiting_streams and network.carries_bytes):
        raise OverflowError
    # What changes on the links after the last entry does not count.
    counts = network.num_flows, network.num_solves, network.num_rates
    return [run.timing(*counts) for run in runs]


class _Run:
    """One workload in time, once through all its steps: the streams [classes][streams], the paces of their
    kernels, where who meets, and gates.
    """

    def __init__(self, classes: PricedClasses, env: simpy.Environment) -> None:
        self.classes, self.env = classes, env
        self.places = [(number, classes.groups[number], column) for number, column in classes.place_of]
        self.streams = [
            [Stream(env, len(stream)) for stream in group.part.streams] for _, group, _ in self.places
        ]
        self.paces = [Pace(env) if classes.slows(group) else None for _, group, _ in self.places]
        self.meetings: dict[Who, Meeting] = {}
        self.gates: defaultdict[tuple[StepGate, int], GateCounter] = defaultdict(GateCounter)

    @property
    def every(self) -> list[Stream]:
        """All streams."""
        return [stream for streams in self.streams for stream in streams]

    def start(self, network: Network) -> list[simpy.Process]:
        """Lets the streams run; the processes that do it."""
        processes = []
        places = zip(self.places, self.streams, self.paces, strict=True)
        for (number, group, column), streams, pace in places:
            for which, (stream, waits) in enumerate(zip(streams, group.part.waits, strict=True)):
                awaited = _on_streams(waits, streams)
                if which == group.part.compute:
                    entries = zip(awaited, self._kernels(number, column), strict=True)
                    process = run_kernels(stream, entries, pace)
                else:
                    does = self._communications(network, number, which, column, pace)
                    process = run_transfers(stream, zip(awaited, does, strict=True))
                processes.append(self.env.process(process))
        return processes

    def _kernels(self, number: int, column: int) -> Sequence[int | Segment]:
        """The entries of kernels of a class: as segments, where these give way to communication."""
        group = self.classes.groups[number]
        segments, (different, which) = group.part.segments, group.kernels()
        if self.classes.slows(group):
            return segments_of(segments, different[which[column]])
        return list(group.segment_times[segments.segment_of, column].tolist())

    def _communications(
        self, network: Network, number: int, which: int, column: int, pace: Pace | None
    ) -> Iterator[Attend]:
        """What a class does on a stream of communication, entry by entry."""
        kinds: list[Attend] = []
        for kind in self.classes.communications(number, which):
            who, size = kind.met[column]
            meeting = self.meetings.setdefault(who, Meeting(network, size)) if size > 1 else Meeting(network)
            moves, taken = kind.moves(column), kind.taken(column)
            shares = () if pace is None or taken is None else ((pace, taken),)
            attend: Attend = partial(meeting.attend, moves, *shares)
            if gates := kind.of_gates(column):
                inner = attend if moves else None
                attend = GatedEntries(self.gates, gates, Latch(self.env), inner).attend
            kinds.append(attend)
        return map(kinds.__getitem__, self.classes.groups[number].part.streams[which].kind_of.tolist())

    def timing(self, *counts: int) -> Timing:
        """What was recorded, with the counts of the network; SimulationError if the run never ended."""
        if any(stream.done < stream.length for stream in self.every):
            raise deadlock_error(self.classes, [[stream.done for stream in own] for own in self.streams])
        groups = [self._group_timing(group) for group in self.classes.groups]
        return Timing(groups, self.classes.num_entries, *counts)

    def _group_timing(self, group: PricedGroup) -> GroupTiming:
        """What the streams of the classes of a group recorded, as columns."""
        streams = [self.streams[index] for index in group.indices]
        times = []
        for of_classes in zip(*streams, strict=True):
            recorded = [[stream.starts for stream in of_classes], [stream.ends for stream in of_classes]]
            starts, ends = np.array(recorded, dtype=np.int64).transpose(0, 2, 1)
            times.append(StreamTimes(starts, ends, np.arange(len(streams))))
        slowed = {
            column: slowed_segments(pace)
            for column, index in enumerate(group.indices)
            if (pace := self.paces[index]) is not None and pace.stretched
        }
        return GroupTiming(group, times, group.part.rows(every=True), group.segment_times, slowed)


def _on_streams(waits: Iterable[Sequence[tuple[int, int]]], streams: Sequence[Stream]) -> Iterator[Waits]:
    """The waits of entries, with streams in place of their numbers."""
    for of_entry in waits:
        yield [(streams[other], position) for other, position in of_entry]
