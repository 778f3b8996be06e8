"""Checks that every release of memory has an allocation before it, in program order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Flags, Ints, offsets, rows_of_lists
from simcluster.program.isa import InstructionBlock, Program, Scope, Slot, StageProgram

_SCOPES = (Scope.MICRO_BATCH, Scope.KEPT)
"""Scopes of buffers that several codes see, each of which books or releases them as its own slot says."""

_NONE = -1


def booking_faults(program: Program) -> Iterator[str]:
    """What makes memory of some category go below zero: one line for every buffer of a code.

    That is impossible where every release has a booking before it, of as many bytes in the same place and
    under the same category. What a code alone sees is booked and released by one slot; what lasts through the
    step is neither.
    """
    uses = _Uses.of(program.codes)
    for number in range(len(program.parts)):
        rows = _Rows.of(program.parts[number], uses)
        stage = number // program.num_variants
        yield from dict.fromkeys(f"stage {stage}: {fault}" for fault in rows.faults())


@dataclass(frozen=True)
class _Seen:
    """A buffer as one code sees it, and whether it books or releases it."""

    code: str
    slot: Slot
    releases: bool

    @cached_property
    def booked_as(self) -> tuple[str, int, str]:
        """What must be the same for all who see the buffer."""
        return str(self.slot.category), self.slot.num_bytes, str(self.slot.place)

    def described(self, name: str) -> str:
        """What it does, as text, with a buffer of this name."""
        does = "releases" if self.releases else "books"
        what = f"{self.slot.num_bytes:,} bytes of {self.slot.category} on the {self.slot.place}"
        return f"{self.code} {does} {name} as {what}"


@dataclass(frozen=True)
class _Uses:
    """What codes book and release of what other codes see, too, code by code in program order.

    Those of a code begin at ``first`` of it; ``slots`` has their names by code. ``kind`` numbers what must be
    the same for all who see a buffer.
    """

    every: list[_Seen]
    first: Ints
    slots: list[list[str]]
    scope: Ints
    releases: Flags
    kind: Ints

    @classmethod
    def of(cls, codes: Sequence[InstructionBlock]) -> _Uses:
        by_code = [list(_seen(code)) for code in codes]
        every = [use for own in by_code for use in own]
        kinds: dict[tuple[str, int, str], int] = {}
        return cls(
            every,
            offsets([len(own) for own in by_code]),
            [[use.slot.name for use in own] for own in by_code],
            np.array([_SCOPES.index(use.slot.scope) for use in every], dtype=np.int64),
            np.array([use.releases for use in every], dtype=np.bool_),
            np.array([kinds.setdefault(use.booked_as, len(kinds)) for use in every], dtype=np.int64),
        )


@dataclass(frozen=True)
class _Rows:
    """What the executions of a part book and release, in program order.

    By row ``execution``, ``use`` as a place among all ``uses``, and ``buffer``, which tells a name and
    micro-batch.
    """

    part: StageProgram
    uses: _Uses
    execution: Ints
    use: Ints
    buffer: Ints

    @classmethod
    def of(cls, part: StageProgram, uses: _Uses) -> _Rows:
        columns = part.columns
        execution, use = rows_of_lists(uses.first, columns.code)
        names = [(instance, uses.slots[code]) for code, instance in columns.pairs]
        named = np.array(part.buffer_numbers.of(names), dtype=np.int64)
        _, place = rows_of_lists(offsets([len(slots) for _, slots in names]), columns.pair)
        labels = np.stack([columns.labels(scope) for scope in _SCOPES])
        label = labels[uses.scope[use], execution] + 1
        return cls(part, uses, execution, use, named[place] * (labels.max(initial=0) + 2) + label)

    def faults(self) -> Iterator[str]:
        """Releases without a booking before them, and whoever sees a buffer otherwise than it is booked."""
        releases = self.uses.releases[self.use]
        first, last = (np.full(int(self.buffer.max(initial=-1)) + 1, _NONE) for _ in range(2))
        # Of several assignments to one place the last one stays.
        books, drops = np.flatnonzero(~releases)[::-1], np.flatnonzero(releases)
        first[self.buffer[books]], last[self.buffer[drops]] = books, drops
        for row in last[(first == _NONE) & (last != _NONE)].tolist():
            yield f"{self._described(row)}, which nothing books"
        for row in last[(first > last) & (last != _NONE)].tolist():
            yield f"{self._described(row)} before it is booked"
        kind = self.uses.kind[self.use]
        booked = first[self.buffer]
        unlike = np.flatnonzero((booked != _NONE) & (kind != kind[booked]))
        for row in unlike.tolist():
            yield f"{self._described(row)}, but {self._described(int(booked[row]))}"

    def _described(self, row: int) -> str:
        columns, use = self.part.columns, self.uses.every[int(self.use[row])]
        _, instance = columns.pairs[int(columns.pair[int(self.execution[row])])]
        return use.described(self.part.buffer(instance, use.slot.name))


def _seen(code: InstructionBlock) -> Iterator[_Seen]:
    """What a code books and releases of what other codes see, too, in program order."""
    rows = [(min(at), False, slot) for slot, at in code.books.items()]
    rows += [(max(at), True, slot) for slot, at in code.dropped.items()]
    for _, releases, index in sorted(rows):
        slot = code.slots[index]
        if slot.scope in _SCOPES and slot.num_bytes:
            yield _Seen(code.name, slot, releases)
