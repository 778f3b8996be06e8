"""The entries of a code by stream: what each waits for.

Consecutive kernels between which nothing waits or is waited for run as one *segment*, a single event; their
starts are known offsets inside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints
from simcluster.program import COMPUTE, Instruction, InstructionBlock, Scope

NOTHING = -1
"""No stream to wait for."""


@dataclass(frozen=True, slots=True)
class StreamEntries:
    """What one stream does in a code, one entry per segment, collective or transfer.

    ``wait_stream`` (index into the code's streams) and ``wait_position`` (entries of it that must have ended)
    say what to wait for; ``meeting`` is the instruction of a collective or transfer, else ``NOTHING``.
    """

    wait_stream: Ints
    wait_position: Ints
    meeting: Ints

    def __len__(self) -> int:
        return len(self.meeting)


@dataclass(frozen=True, slots=True)
class CodeEntries:
    """The entries of a block of instructions, by the ``streams`` that it uses, and what each of them does.

    ``stream_of`` and ``entry`` say by instruction where it is. ``incoming`` are (slot, stream) of buffers
    that other blocks write and this one reads; ``outgoing`` are (slot, stream, entries until written,
    whether it only adds) of those that it writes for others.
    """

    streams: tuple[str, ...]
    tracks: tuple[StreamEntries, ...]
    stream_of: Ints
    entry: Ints
    incoming: tuple[tuple[int, int], ...]
    outgoing: tuple[tuple[int, int, int, bool], ...]

    @classmethod
    def of(cls, code: InstructionBlock) -> CodeEntries:
        """Those of a code."""
        return _EntryBuilder(code).run()

    def offsets(self, durations: Ints) -> Ints:
        """When every instruction starts within its entry (ns), if instructions take so long."""
        entry = self.stream_of * (int(self.entry.max(initial=0)) + 1) + self.entry
        order = np.argsort(entry, kind="stable")
        begins = np.cumsum(durations[order]) - durations[order]
        _, first, which = np.unique(entry[order], return_index=True, return_inverse=True)
        offsets = np.empty_like(begins)
        offsets[order] = begins - begins[first][which]
        return offsets


class _EntryBuilder:
    def __init__(self, code: InstructionBlock) -> None:
        self.code = code
        self.stream_of = [code.streams.index(instruction.stream) for instruction in code.instructions]
        self.entry: list[int] = []
        self.tracks: list[list[tuple[int, int, int]]] = [[] for _ in code.streams]
        # By stream and other stream, up to which entry of that it has waited.
        self.known: defaultdict[tuple[int, int], int] = defaultdict(int)

    def run(self) -> CodeEntries:
        instructions = self.code.instructions
        # Instructions that another stream of this code waits for: their segment ends with them.
        awaited = {
            other
            for stream, instruction in zip(self.stream_of, instructions, strict=True)
            for other in instruction.after
            if self.stream_of[other] != stream
        }
        open_segment = False
        for index, (stream, instruction) in enumerate(zip(self.stream_of, instructions, strict=True)):
            track, kernel = self.tracks[stream], instruction.stream == COMPUTE
            waits = self._waits(stream, instruction)
            if waits or not (kernel and open_segment):
                *before, last = waits or [(NOTHING, 0)]
                track += [(*wait, NOTHING) for wait in before]
                track.append((*last, NOTHING if kernel else index))
            self.entry.append(len(track) - 1)
            if kernel:
                open_segment = index not in awaited
        tracks = (StreamEntries(*map(_ints, zip(*track, strict=True))) for track in self.tracks)
        places = _ints(self.stream_of), _ints(self.entry)
        return CodeEntries(self.code.streams, tuple(tracks), *places, self._incoming(), self._outgoing())

    def _waits(self, stream: int, instruction: Instruction) -> list[tuple[int, int]]:
        """(Stream, entries that must have ended) of what this instruction waits for and is not implied."""
        needed: defaultdict[int, int] = defaultdict(int)
        for other in instruction.after:
            needed[self.stream_of[other]] = max(needed[self.stream_of[other]], self.entry[other] + 1)
        waits = []
        for other, position in sorted(needed.items()):
            if other != stream and self.known[stream, other] < position:
                self.known[stream, other] = position
                waits.append((other, position))
        return waits

    def _incoming(self) -> tuple[tuple[int, int], ...]:
        read: dict[tuple[int, int], None] = {}
        written: set[int] = set()
        scopes = [slot.scope for slot in self.code.slots]
        for stream, instruction in zip(self.stream_of, self.code.instructions, strict=True):
            slots = [slot for slot in instruction.reads if scopes[slot] is not Scope.LOCAL]
            slots += [slot for slot in instruction.adds if scopes[slot] is Scope.MICRO_BATCH]
            read |= {(slot, stream): None for slot in slots if slot not in written}
            written.update(instruction.writes)
        return tuple(read)

    def _outgoing(self) -> tuple[tuple[int, int, int, bool], ...]:
        instructions = self.code.instructions
        return tuple(
            (slot, self.stream_of[writer], self.entry[writer] + 1, slot in instructions[writer].adds)
            for slot, writers in sorted(self.code.written.items())
            if self.code.slots[slot].scope is not Scope.LOCAL
            for writer in sorted(writers)
        )


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)
