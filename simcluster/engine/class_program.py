"""All executions of a class strung together: for each stream one long list of entries.

Waits between executions are resolved here: who made what a buffer holds, on which streams, at which position.
What a stream already knows to be over is not waited for again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.timed import NOTHING, TimedCode, Track
from simcluster.program import (
    COMPUTE,
    SENDER_OF,
    TRANSFER_STREAMS,
    BlockExecution,
    Program,
    Scope,
    record_producer,
)

Ints = NDArray[np.int64]

BARRIER = -1
"""The execution of an entry that only waits."""

_SCOPES = tuple(Scope)

_NOBODY: dict[int, int] = {}

_Buffers = tuple[list[tuple[int, str, Scope]], list[tuple[str, Scope, int, int, bool]]]
"""Reads (stream, buffer, scope) and writes (buffer, scope, stream, entries, whether it only adds)."""


@dataclass(frozen=True)
class LinkedStream:
    """The entries of one stream of one class over the whole run.

    Columns as in ``Track``, with ``wait_stream`` an index into the class's streams and ``wait_position``
    absolute; ``execution`` is the index of the execution (``BARRIER`` for entries that only wait).
    """

    name: str
    wait_stream: Ints
    wait_position: Ints
    duration: Ints
    meeting: Ints
    execution: Ints

    def __len__(self) -> int:
        return len(self.duration)


@dataclass(frozen=True)
class ClassProgram:
    """The streams of one class, and for each execution the position of its first entry on each stream.

    ``bases`` has shape [executions, streams]; ``executions`` are those of the part, once for each of
    ``steps`` steps.
    """

    streams: tuple[LinkedStream, ...]
    bases: Ints
    executions: tuple[BlockExecution, ...]
    steps: int

    def by_code(self) -> dict[int, Ints]:
        """Code -> indices of its executions."""
        codes = np.array([execution.code for execution in self.executions], dtype=np.int64)
        return {int(code): np.flatnonzero(codes == code) for code in np.unique(codes)}


def link(program: Program, part: int, timed: Mapping[int, TimedCode], steps: int) -> ClassProgram:
    """Links the executions of a part, ``steps`` times over."""
    return _Linker(program, part, timed, steps).run()


@dataclass
class _Linker:
    program: Program
    part: int
    timed: Mapping[int, TimedCode]
    steps: int
    numbers: dict[str, int] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)
    pieces: defaultdict[int, list[tuple[Track, int]]] = field(default_factory=lambda: defaultdict(list))
    written: defaultdict[tuple[str, int], dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    known: list[list[int]] = field(default_factory=list)
    bases: list[list[int]] = field(default_factory=list)
    buffers: dict[tuple[int, str], _Buffers] = field(default_factory=dict)

    def run(self) -> ClassProgram:
        plan = self.program.parts[self.part]
        codes = sorted({execution.code for execution in plan.executions})
        for code in codes:
            for stream in self.timed[code].streams:
                self.numbers.setdefault(stream, len(self.numbers))
        self.numbers.setdefault(COMPUTE, len(self.numbers))
        count = len(self.numbers)
        self.lengths = [0] * count
        self.known = [[0] * count for _ in range(count)]
        self.local = {code: [self.numbers[stream] for stream in self.timed[code].streams] for code in codes}
        executions = plan.executions * self.steps
        for index, execution in enumerate(executions):
            self._append(index, execution)
        bases = np.array(self.bases, dtype=np.int64).reshape(-1, count)
        streams = tuple(self._stream(name, number, bases) for name, number in self.numbers.items())
        return ClassProgram(streams, bases, executions, self.steps)

    def _append(self, index: int, execution: BlockExecution) -> None:
        timed = self.timed[execution.code]
        streams = self.local[execution.code]
        reads, writes = self._buffers(execution.code, execution.instance)
        labels = {scope: execution.label(scope) for scope in _SCOPES}
        written = self.written
        for where, name, scope in reads:
            for writer, position in written.get((name, labels[scope]), _NOBODY).items():
                if self.known[streams[where]][writer] < position:
                    self._wait(streams[where], writer, position)
        if execution.wait_for_transfers:
            for stream in TRANSFER_STREAMS:
                if stream in self.numbers:
                    number = self.numbers[stream]
                    self._wait(self.numbers[COMPUTE], number, self.lengths[number])
        for stream in execution.after_streams:
            for own in streams if stream in self.numbers else ():
                self._wait(own, self.numbers[stream], self.lengths[self.numbers[stream]])
        if timed.streams[0] in SENDER_OF:
            # A receive is posted when the kernels before it in program order are done.
            compute = self.numbers[COMPUTE]
            self._wait(streams[0], compute, self.lengths[compute])
        for place, ago in execution.after:
            self._follow(index - index % len(self.program.parts[self.part].executions), place, ago, streams)
        base = list(self.lengths)
        self.bases.append(base)
        for where, track in zip(streams, timed.tracks, strict=True):
            self.pieces[where].append((track, index))
            self.lengths[where] += len(track)
        for name, scope, where, position, adds in writes:
            number = streams[where]
            record_producer(written[name, labels[scope]], number, base[number] + position, adds=adds)

    def _buffers(self, code: int, instance: str) -> _Buffers:
        """What a code reads of others and writes for others when it runs for an instance, by buffer name."""
        if (code, instance) not in self.buffers:
            timed, slots = self.timed[code], self.program.codes[code].slots
            buffer = self.program.parts[self.part].buffer

            def named(slot: int) -> tuple[str, Scope]:
                return buffer(instance, slots[slot].name), slots[slot].scope

            reads = [(where, *named(slot)) for where, slot in timed.incoming]
            writes = [(*named(slot), where, position, adds) for slot, where, position, adds in timed.outgoing]
            self.buffers[code, instance] = reads, writes
        return self.buffers[code, instance]

    def _follow(self, first: int, place: int, ago: int, streams: Sequence[int]) -> None:
        """Makes all ``streams`` wait until an execution has ended: of the step that begins at ``first``, or
        so many steps ``ago``. What was before the first step has.
        """
        plan = self.program.parts[self.part].executions
        earlier = first - ago * len(plan) + place
        if earlier < 0:
            return
        awaited = plan[place].code
        for number, track in zip(self.local[awaited], self.timed[awaited].tracks, strict=True):
            for stream in streams:
                self._wait(stream, number, self.bases[earlier][number] + len(track))

    def _wait(self, stream: int, other: int, position: int) -> None:
        """Makes ``stream`` wait until ``other`` has ended ``position`` entries, unless it knows already."""
        if other == stream or self.known[stream][other] >= position:
            return
        self.known[stream][other] = position
        barrier = Track(*(np.array([value]) for value in (other, position, 0, NOTHING)))
        self.pieces[stream].append((barrier, BARRIER))
        self.lengths[stream] += 1

    def _stream(self, name: str, number: int, bases: Ints) -> LinkedStream:
        pieces = self.pieces[number]
        if not pieces:
            empty = np.zeros(0, dtype=np.int64)
            return LinkedStream(name, empty, empty, empty, empty, empty)
        tracks = [track for track, _ in pieces]
        lengths = [len(track) for track in tracks]
        execution = np.repeat([index for _, index in pieces], lengths)
        stream = np.concatenate([track.wait_stream for track in tracks])
        position = np.concatenate([track.wait_position for track in tracks])
        inside = (execution != BARRIER) & (stream != NOTHING)
        # Waits inside a code are relative to where the code begins on the stream that is waited for.
        stream[inside], position[inside] = self._absolute(
            execution[inside], stream[inside], position[inside], bases
        )
        return LinkedStream(
            name,
            stream,
            position,
            np.concatenate([track.duration for track in tracks]),
            np.concatenate([track.meeting for track in tracks]),
            execution,
        )

    def _absolute(self, execution: Ints, stream: Ints, position: Ints, bases: Ints) -> tuple[Ints, Ints]:
        executions = self.program.parts[self.part].executions
        widest = max(len(numbers) for numbers in self.local.values())
        table = np.full((len(self.program.codes), widest), NOTHING, dtype=np.int64)
        for code, streams in self.local.items():
            table[code, : len(streams)] = streams
        codes = np.array([execution.code for execution in executions], dtype=np.int64)
        numbers = table[codes[execution % len(executions)], stream]
        return numbers, bases[execution, numbers] + position
