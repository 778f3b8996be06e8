"""The entries of a code by stream: what each waits for.

Consecutive kernels between which nothing waits or is waited for run as one *segment*, a single event; their
starts are known offsets inside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field

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

    ``stream_of`` and ``entry`` say by instruction where it is. ``incoming`` are (stream, slot) of buffers
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


@dataclass
class _EntryBuilder:
    code: InstructionBlock
    tracks: dict[int, list[tuple[int, int, int]]] = field(default_factory=lambda: defaultdict(list))

    def run(self) -> CodeEntries:
        code = self.code
        number = {stream: index for index, stream in enumerate(code.streams)}
        # Instructions that another stream of this code waits for: their segment ends with them.
        awaited = {
            other
            for instruction in code.instructions
            for other in instruction.after
            if code.instructions[other].stream != instruction.stream
        }
        entry: list[int] = []
        open_segment = False
        known: dict[tuple[int, int], int] = {}
        for index, instruction in enumerate(code.instructions):
            stream = number[instruction.stream]
            track = self.tracks[stream]
            waits = self._waits(instruction, stream, number, entry, known)
            kernel = instruction.stream == COMPUTE
            if not (kernel and open_segment and not waits and track):
                track += [(other, position, NOTHING) for other, position in waits[:-1]]
                other, position = waits[-1] if waits else (NOTHING, 0)
                track.append((other, position, NOTHING if kernel else index))
            entry.append(len(track) - 1)
            if kernel:
                open_segment = index not in awaited
        return CodeEntries(
            code.streams,
            tuple(
                StreamEntries(*map(_ints, zip(*self.tracks[index], strict=True)))
                for index in range(len(code.streams))
            ),
            _ints([number[instruction.stream] for instruction in code.instructions]),
            _ints(entry),
            *self._border(number, entry),
        )

    def _waits(
        self,
        instruction: Instruction,
        stream: int,
        number: Mapping[str, int],
        entry: list[int],
        known: dict[tuple[int, int], int],
    ) -> list[tuple[int, int]]:
        """(stream, entries that must have ended) of what this instruction waits for and is not implied."""
        needed: dict[int, int] = {}
        for other in instruction.after:
            where = number[self.code.instructions[other].stream]
            if where != stream:
                needed[where] = max(needed.get(where, 0), entry[other] + 1)
        waits = []
        for where, position in sorted(needed.items()):
            if known.get((stream, where), 0) < position:
                known[stream, where] = position
                waits.append((where, position))
        return waits

    def _border(
        self, number: Mapping[str, int], entry: list[int]
    ) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int, int, bool], ...]]:
        code = self.code
        read: dict[tuple[int, int], None] = {}
        written: set[int] = set()
        for instruction in code.instructions:
            for slot in instruction.reads:
                if code.slots[slot].scope is not Scope.LOCAL and slot not in written:
                    read[number[instruction.stream], slot] = None
            for slot in instruction.adds:
                if code.slots[slot].scope is Scope.MICRO_BATCH and slot not in written:
                    read[number[instruction.stream], slot] = None
            written.update(instruction.writes)
        incoming = tuple(read)
        outgoing = tuple(
            (slot, number[instruction.stream], entry[writer] + 1, slot in instruction.adds)
            for slot, writers in sorted(code.written.items())
            if code.slots[slot].scope is not Scope.LOCAL
            for writer in sorted(writers)
            for instruction in [code.instructions[writer]]
        )
        return incoming, outgoing


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)
