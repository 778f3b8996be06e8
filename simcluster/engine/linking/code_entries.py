"""The entries of a code by stream: what each waits for.

Consecutive kernels between which nothing waits or is waited for run as one *segment*, a single event; their
starts are known offsets inside it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints
from simcluster.program import COMPUTE, Instruction, InstructionBlock, Scope

NOTHING = -1
"""No entry, or no instruction."""


@dataclass(frozen=True, slots=True)
class CodeEntries:
    """The entries of a block of instructions, by the ``streams`` that it uses: one per segment, collective or
    transfer.

    ``meetings`` are by stream and entry the instruction of a collective or transfer, else ``NOTHING``.
    ``waits`` are (stream, entry, other stream, entry of it that must have ended). ``stream_of`` and ``entry``
    say by instruction where it is. ``incoming`` are (slot, stream) of buffers that other blocks write and
    this one reads; ``outgoing`` are (slot, stream, entry that writes, whether it only adds) of those that it
    writes for others.
    """

    streams: tuple[str, ...]
    meetings: tuple[Sequence[int], ...]
    waits: tuple[tuple[int, int, int, int], ...]
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
        self.meetings: list[list[int]] = [[] for _ in code.streams]
        self.waits: list[tuple[int, int, int, int]] = []
        # By stream and other stream, up to which entry of that it has waited.
        self.known: dict[tuple[int, int], int] = {}

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
            entries, kernel = self.meetings[stream], instruction.stream == COMPUTE
            waits = self._waits(stream, instruction)
            if waits or not (kernel and open_segment):
                self.waits += [(stream, len(entries), *wait) for wait in waits]
                entries.append(NOTHING if kernel else index)
            self.entry.append(len(entries) - 1)
            if kernel:
                open_segment = index not in awaited
        of_entries = tuple(self.meetings), tuple(self.waits)
        places = _ints(self.stream_of), _ints(self.entry)
        return CodeEntries(self.code.streams, *of_entries, *places, self._incoming(), self._outgoing())

    def _waits(self, stream: int, instruction: Instruction) -> list[tuple[int, int]]:
        """(Stream, entry) of what this instruction waits for and is not implied."""
        needed: dict[int, int] = {}
        for index in instruction.after:
            other = self.stream_of[index]
            if other != stream:
                needed[other] = max(needed.get(other, NOTHING), self.entry[index])
        waits = [
            wait for wait in sorted(needed.items()) if self.known.get((stream, wait[0]), NOTHING) < wait[1]
        ]
        self.known |= {(stream, other): entry for other, entry in waits}
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
            (slot, self.stream_of[writer], self.entry[writer], slot in instructions[writer].adds)
            for slot, writers in sorted(self.code.written.items())
            if self.code.slots[slot].scope is not Scope.LOCAL
            for writer in sorted(writers)
        )


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)
