"""The engine: a Program on a cluster, in time.

It prices the codes per class, links their executions, runs one SimPy process per stream and hands back when
every entry started.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import simpy
from numpy.typing import NDArray

from simcluster.cluster import Cluster
from simcluster.cluster.communication import Taken
from simcluster.cluster.price import nanoseconds
from simcluster.collectives import AUTOMATIC, Selection
from simcluster.engine.choices import Choices
from simcluster.engine.fabric import NO_LINKS, Fabric, Transfer
from simcluster.engine.flows import Network
from simcluster.engine.linked import LinkedClass, LinkedStream, link
from simcluster.engine.merged import merged
from simcluster.engine.pace import Pace, segments_of, stretched_times
from simcluster.engine.streams import (
    Communications,
    Kernels,
    Meeting,
    Moves,
    Stream,
    run_beside,
    run_kernels,
    run_transfers,
)
from simcluster.engine.timed import NOTHING, TimedCode, timed
from simcluster.errors import PlanError, SimulationError
from simcluster.program import COMPUTE, Action, Classes, Instruction, Program
from simcluster.program.calls import FREE_CALLS, Calls, HostCalls
from simcluster.program.instruction import RECV_NEXT, RECV_PREV, SEND_NEXT, SEND_PREV
from simcluster.program.wanted import Wants
from simcluster.trace import Table

Ints = NDArray[np.int64]

_PAIRS = {SEND_NEXT: RECV_PREV, SEND_PREV: RECV_NEXT}


@dataclass(frozen=True)
class ClassTiming:
    """What one class did: its linked entries, and per stream when each entry started and ended.

    ``arrivals`` has when communication entries were ready to start, and nothing for the compute stream. The
    ends of communication entries are results: ``linked`` has what they take alone. ``stretched`` has entry,
    start and end of every kernel of the segments that communication slowed, by entry, in their order.
    """

    linked: LinkedClass
    codes: Mapping[int, TimedCode]
    starts: Sequence[Ints]
    arrivals: Sequence[Ints]
    ends: Sequence[Ints]
    stretched: Table


@dataclass(frozen=True)
class Timing:
    """What every class did, the time at which the last one ended (ns), and the number of entries run.

    ``num_flows`` counts what was carried over shared links, ``num_solves`` how often rates were worked out
    anew where flows shared one.
    """

    classes: Sequence[ClassTiming]
    end: int
    num_events: int
    num_flows: int = 0
    num_solves: int = 0


@dataclass
class Progress:
    """How far a running engine is, for whoever watches from another thread."""

    env: simpy.Environment | None = None
    streams: list[Stream] = field(default_factory=list)
    total: int = 0

    @property
    def now(self) -> float:
        """Simulated seconds."""
        return float(self.env.now) * 1e-9 if self.env is not None else 0.0

    @property
    def done(self) -> int:
        """Entries that have ended."""
        return sum(stream.done for stream in self.streams)


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
) -> Timing:
    """Runs the Program ``steps`` times over; SimulationError names who waits for whom if it cannot end.

    ``dispatch`` scales the devices' host time per operator; ``algorithms`` are those of collectives, ``host``
    what it spends on these. Links of the ``fabric`` are shared; without one, every collective and transfer
    takes what it would alone.
    """
    calls = Calls.of(program, host)
    watched = progress or Progress()
    try:
        return _Engine(program, cluster, classes, steps, dispatch, algorithms, fabric, calls, watched).run()
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


@dataclass
class _Engine:
    program: Program
    cluster: Cluster
    classes: Classes
    steps: int
    dispatch: float
    algorithms: Selection
    fabric: Fabric | None
    calls: Calls
    progress: Progress

    def run(self) -> Timing:
        self.meetings: dict[tuple[object, ...], Meeting] = {}
        self.met: dict[tuple[int, str], Sequence[Meeting | None]] = {}
        self.known: dict[tuple[object, ...], tuple[dict[int, TimedCode], LinkedClass]] = {}
        self.choices = Choices(self.classes, self.cluster, Wants(self.program, self.algorithms))
        self.env = simpy.Environment()
        lowered = [self._lowered(index) for index in range(len(self.classes))]
        codes, linked = [each for each, _ in lowered], [each for _, each in lowered]
        streams = [[Stream(each.name, self.env, len(each)) for each in found.streams] for found in linked]
        every = [stream for found in streams for stream in found]
        self.progress.env, self.progress.streams = self.env, every
        self.progress.total = sum(stream.length for stream in every)
        network = Network(self.env, merged(self.fabric.links) if self.fabric else NO_LINKS)
        paces = [self._pace(index, found) for index, found in enumerate(linked)]
        for index, (found, pace) in enumerate(zip(linked, paces, strict=True)):
            for stream, each in zip(streams[index], found.streams, strict=True):
                waits = self._waits(each, streams[index])
                if each.name == COMPUTE:
                    kernels = Kernels(*waits, each.duration.tolist())
                    if pace:
                        process = run_beside(stream, kernels, segments_of(found, codes[index]), pace)
                    else:
                        process = run_kernels(stream, kernels)
                else:
                    met = self._communications(index, each, found)
                    takes = self._takes(index, each, found) if pace else None
                    process = run_transfers(stream, Communications(*waits, *met, takes), network, pace)
                self.env.process(process)
        with _no_collection():
            self.env.run()
        if any(stream.done < stream.length for stream in every):
            raise SimulationError(*self._stuck(streams, linked))
        timings = [
            _class_timing(found, codes[index], streams[index], paces[index])
            for index, found in enumerate(linked)
        ]
        # What changes on the links after the last entry does not count.
        end = max((int(ends[-1]) for timing in timings for ends in timing.ends if len(ends)), default=0)
        return Timing(timings, end, self.progress.total, network.num_flows, network.num_solves)

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
            codes = {code: timed(self.program.codes[code], self._pricer(index, code)) for code in used}
            self.known[key] = codes, link(self.program, part, codes, self.steps)
        return self.known[key]

    def _pricer(self, index: int, number: int) -> Callable[[Instruction], tuple[int, int, int]]:
        device = self.cluster.device(self.classes.representatives[index])
        code = self.program.codes[number]

        def price(each: Instruction) -> tuple[int, int, int]:
            if each.action is Action.COMPUTE:
                if not each.works:
                    return 1, 0, 0
                found = device.price(each.works, self.dispatch * device.dispatch)
                return found.total_ns, found.host_ns, found.memory_ns
            alone = max(1, self.choices.of(index, each).duration_ns)
            if each.action is not Action.COLLECTIVE:
                return alone, 0, 0
            total = max(alone, nanoseconds(self.calls.seconds(code, each)))
            return total, total - alone, 0

        return price

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
            if self.fabric:
                place = execution.code, int(each.meeting[position])
                if place not in known:
                    known[place] = self._transfer(index, instruction, moves[position])
                moves[position] = known[place] or moves[position]
        self.met[index, each.name] = meetings
        return moves, meetings

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

    def _transfer(self, index: int, each: Instruction, priced: Moves) -> Transfer | None:
        """What an instruction puts on the fabric, not before the host has called for it."""
        assert self.fabric and isinstance(priced, int)
        found = self.fabric.transfer(index, each)
        called = priced - max(1, self.choices.of(index, each).duration_ns)
        return replace(found, latency_ns=found.latency_ns + called) if found and called else found

    def _meeting_key(self, index: int, each: Instruction) -> tuple[tuple[object, ...], int]:
        """Who meets: the classes of a group, or sender and receiver."""
        if each.action is Action.COLLECTIVE:
            group = self.classes.groups[index, each.group]
            return ("group", each.stream, group.id), len(group.members)
        peer, _ = self.choices.peer(index, each)
        sends = each.action is Action.SEND
        stream = each.stream if sends else next(s for s, r in _PAIRS.items() if r == each.stream)
        return ("transfer", stream, *((index, peer) if sends else (peer, index))), 2

    # -- deadlock ---------------------------------------------------------------------------------------

    def _stuck(self, streams: Sequence[Sequence[Stream]], linked: Sequence[LinkedClass]) -> list[str]:
        """One line per stuck stream: what it is at and what it waits for."""
        lines = ["the program is deadlocked"]
        for index, found in enumerate(linked):
            rank = self.classes.representatives[index]
            for stream, each in zip(streams[index], found.streams, strict=True):
                if stream.done == stream.length:
                    continue
                what = self._entry_name(found, each, stream.done)
                other = int(each.wait_stream[stream.done])
                if len(stream.arrivals) > stream.done:
                    meeting = self.met[index, each.name][stream.done]
                    late = meeting is not None and meeting.arrived < meeting.size
                    reason = "the other members of its group" if late else "links that carry nothing"
                elif other == NOTHING:
                    reason = "nothing"
                else:
                    awaited = found.streams[other]
                    position = int(each.wait_position[stream.done]) - 1
                    reason = f"{self._entry_name(found, awaited, position)} on {awaited.name}"
                lines.append(f"rank {rank}, {stream.name}: {what} waits for {reason}")
        return lines

    def _entry_name(self, linked: LinkedClass, each: LinkedStream, position: int) -> str:
        index = int(each.execution[position])
        if index < 0:
            return "a wait"
        execution = linked.executions[index]
        code = self.program.codes[execution.code]
        instruction = int(each.meeting[position])
        inner = code.instructions[instruction].name if instruction != NOTHING else code.name
        return f"{execution.instance}.{inner} ({execution.action})"


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
