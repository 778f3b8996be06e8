"""The engine: a Program on a cluster, in time.

It prices the codes per class, links their executions, runs one SimPy process per stream and hands back when
every entry started.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import simpy
from numpy.typing import NDArray

from simcluster.cluster import Cluster, Placement
from simcluster.collectives import AUTOMATIC, Choice, Operation, Selection, collective_time
from simcluster.engine.linked import LinkedClass, LinkedStream, link
from simcluster.engine.streams import Entries, Meeting, Stream, run_kernels, run_transfers
from simcluster.engine.timed import NOTHING, TimedCode, timed
from simcluster.errors import PlanError, SimulationError
from simcluster.program import COMPUTE, Action, Classes, Instruction, Program
from simcluster.program.instruction import RECV_NEXT, RECV_PREV, SEND_NEXT, SEND_PREV

Ints = NDArray[np.int64]

_PAIRS = {SEND_NEXT: RECV_PREV, SEND_PREV: RECV_NEXT}


@dataclass(frozen=True)
class ClassTiming:
    """What one class did: its linked entries, and per stream the start of each entry and its arrival."""

    linked: LinkedClass
    codes: Mapping[int, TimedCode]
    starts: Sequence[Ints]
    arrivals: Sequence[Ints]


@dataclass(frozen=True)
class Timing:
    """What every class did, the time at which the last one ended (ns), and the number of entries run."""

    classes: Sequence[ClassTiming]
    end: int
    num_events: int


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
    progress: Progress | None = None,
) -> Timing:
    """Runs the Program ``steps`` times over; SimulationError names who waits for whom if it cannot end.

    ``dispatch`` scales the devices' host time per operator; ``algorithms`` are those of collectives.
    """
    try:
        return _Engine(program, cluster, classes, steps, dispatch, algorithms, progress or Progress()).run()
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
    progress: Progress

    def run(self) -> Timing:
        self.meetings: dict[tuple[object, ...], Meeting] = {}
        self.known: dict[tuple[object, ...], tuple[dict[int, TimedCode], LinkedClass]] = {}
        self.env = simpy.Environment()
        lowered = [self._lowered(index) for index in range(len(self.classes))]
        codes, linked = [each for each, _ in lowered], [each for _, each in lowered]
        streams = [[Stream(each.name, self.env, len(each)) for each in found.streams] for found in linked]
        every = [stream for found in streams for stream in found]
        self.progress.env, self.progress.streams = self.env, every
        self.progress.total = sum(stream.length for stream in every)
        for index, found in enumerate(linked):
            for stream, each in zip(streams[index], found.streams, strict=True):
                entries = self._entries(index, each, found, streams[index])
                process = run_kernels if each.name == COMPUTE else run_transfers
                self.env.process(process(stream, entries))
        with _no_collection():
            self.env.run()
        if any(stream.done < stream.length for stream in every):
            raise SimulationError(*self._stuck(streams, linked))
        timings = [
            ClassTiming(
                found,
                codes[index],
                [np.array(stream.starts, dtype=np.int64) for stream in streams[index]],
                [np.array(stream.arrivals, dtype=np.int64) for stream in streams[index]],
            )
            for index, found in enumerate(linked)
        ]
        return Timing(timings, int(self.env.now), self.progress.total)

    # -- prices -----------------------------------------------------------------------------------------

    def _lowered(self, index: int) -> tuple[dict[int, TimedCode], LinkedClass]:
        """A class's codes, priced, and its executions, linked; classes that differ in nothing share them."""
        rank = self.classes.representatives[index]
        stage = self.program.stage_of(rank)
        spans = tuple(
            self.classes.groups[index, axes].span if (index, axes) in self.classes.groups else None
            for axes in self.program.groups
        )
        peers = tuple(
            pair[index][1] if index in pair else None
            for pair in (self.classes.next_stage, self.classes.prev_stage)
        )
        key = (stage, self.cluster.device(rank), spans, peers)
        if key not in self.known:
            used = sorted({execution.code for execution in self.program.stages[stage].executions})
            codes = {code: timed(self.program.codes[code], self._pricer(index)) for code in used}
            self.known[key] = codes, link(self.program, stage, codes, self.steps)
        return self.known[key]

    def _pricer(self, index: int) -> Callable[[Instruction], tuple[int, int]]:
        device = self.cluster.device(self.classes.representatives[index])

        def price(each: Instruction) -> tuple[int, int]:
            if each.action is Action.COMPUTE:
                if not each.works:
                    return 1, 0
                found = device.price(each.works, self.dispatch * device.dispatch)
                return found.total_ns, found.host_ns
            return max(1, self.choice(index, each).duration_ns), 0

        return price

    def choice(self, index: int, each: Instruction) -> Choice:
        """How a class's collective or transfer is done, and how long it takes."""
        span = (
            self._peer(index, each.stream)[1]
            if not each.group
            else self.classes.groups[index, each.group].span
        )
        operation = Operation(each.operation)
        algorithm = self.algorithms.of(operation)
        return collective_time(operation, span, each.num_bytes, self.cluster, algorithm)

    def _peer(self, index: int, stream: str) -> tuple[int, Placement]:
        """The class at the other end of a transfer stream, and how the pair lies on the cluster."""
        forward = stream in (SEND_NEXT, RECV_NEXT)
        return (self.classes.next_stage if forward else self.classes.prev_stage)[index]

    # -- entries ----------------------------------------------------------------------------------------

    def _entries(
        self,
        index: int,
        each: LinkedStream,
        linked: LinkedClass,
        streams: Sequence[Stream],
    ) -> Entries:
        table: list[Stream | None] = [*streams, None]
        meetings: list[Meeting | None] = [None] * len(each)
        if each.name != COMPUTE:
            counts: defaultdict[tuple[object, ...], int] = defaultdict(int)
            for position in np.flatnonzero(each.meeting != NOTHING):
                execution = linked.executions[each.execution[position]]
                instruction = self.program.codes[execution.code].instructions[each.meeting[position]]
                key, size = self._meeting_key(index, instruction)
                if size > 1:
                    counts[key] += 1
                    meetings[position] = self.meetings.setdefault((*key, counts[key]), Meeting(size))
        return Entries(
            [table[other] for other in each.wait_stream.tolist()],
            each.wait_position.tolist(),
            each.duration.tolist(),
            meetings,
        )

    def _meeting_key(self, index: int, each: Instruction) -> tuple[tuple[object, ...], int]:
        """Who meets: the classes of a group, or sender and receiver."""
        if each.action is Action.COLLECTIVE:
            group = self.classes.groups[index, each.group]
            return ("group", each.stream, group.id), len(group.members)
        peer, _ = self._peer(index, each.stream)
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
                    reason = "the other members of its group"
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
