"""Checks that every release of memory has an allocation before it, in program order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints
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
    seen = [list(_seen(code)) for code in program.codes]
    for number in range(len(program.parts)):
        rows = _Rows.of(program.parts[number], seen)
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
class _Rows:
    """What the executions of a part book and release, in program order.

    Of every row: ``seen`` is an index into ``kinds`` and ``names``, what a code does and to which buffer of
    the part; ``buffer`` tells a name and micro-batch.
    """

    kinds: list[_Seen]
    names: list[str]
    seen: Ints
    buffer: Ints

    @classmethod
    def of(cls, part: StageProgram, by_code: Sequence[list[_Seen]]) -> _Rows:
        order, which = part.columns.pairs, part.columns.pair
        first = np.cumsum([0, *(len(by_code[code]) for code, _ in order)])
        flat = [use for code, _ in order for use in by_code[code]]
        names = [part.buffer(instance, use.slot.name) for code, instance in order for use in by_code[code]]
        numbers: dict[str, int] = {}
        named = np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)
        scope = np.array([_SCOPES.index(use.slot.scope) for use in flat], dtype=np.int64)
        labels = np.stack([part.columns.labels(scope) for scope in _SCOPES])
        times = np.diff(first)[which]
        execution = np.repeat(np.arange(len(which)), times)
        inside = np.arange(len(execution)) - np.repeat(np.cumsum(times) - times, times)
        seen = first[which][execution] + inside
        label = labels[scope[seen], execution] + 1
        return cls(flat, names, seen, named[seen] * (labels.max(initial=0) + 2) + label)

    def faults(self) -> Iterator[str]:
        """Releases without a booking before them, and whoever sees a buffer otherwise than it is booked."""
        releases = np.array([use.releases for use in self.kinds], dtype=np.bool_)[self.seen]
        first, last = (np.full(int(self.buffer.max(initial=-1)) + 1, _NONE) for _ in range(2))
        # Of several assignments to one place the last one stays.
        books, drops = np.flatnonzero(~releases)[::-1], np.flatnonzero(releases)
        first[self.buffer[books]], last[self.buffer[drops]] = books, drops
        for row in last[(first == _NONE) & (last != _NONE)].tolist():
            yield f"{self._described(row)}, which nothing books"
        for row in last[(first > last) & (last != _NONE)].tolist():
            yield f"{self._described(row)} before it is booked"
        alike: dict[tuple[str, int, str], int] = {}
        kind = np.array([alike.setdefault(use.booked_as, len(alike)) for use in self.kinds], dtype=np.int64)
        booked = first[self.buffer]
        unlike = np.flatnonzero((booked != _NONE) & (kind[self.seen] != kind[self.seen[booked]]))
        for row in unlike.tolist():
            yield f"{self._described(row)}, but {self._described(int(booked[row]))}"

    def _described(self, row: int) -> str:
        which = int(self.seen[row])
        return self.kinds[which].described(self.names[which])


def _seen(code: InstructionBlock) -> Iterator[_Seen]:
    """What a code books and releases of what other codes see, too, in program order."""
    rows = [(min(at), False, slot) for slot, at in code.books.items()]
    rows += [(max(at), True, slot) for slot, at in code.dropped.items()]
    for _, releases, index in sorted(rows):
        slot = code.slots[index]
        if slot.scope in _SCOPES and slot.num_bytes:
            yield _Seen(code.name, slot, releases)
