"""What a Program books and releases in program order: the account of memory before there are times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.program.isa import Program, Scope, Slot

Ints = NDArray[np.int64]

_SCOPES = (Scope.MICRO_BATCH, Scope.KEPT)
"""Scopes of buffers that several codes see, each of which books or releases them as its own slot says."""

_NONE = -1


def booking_faults(program: Program) -> Iterator[str]:
    """What makes memory of some category go below zero: one line for every buffer of a code.

    That is impossible where every release has a booking before it, of as many bytes in the same place and
    under the same category. What a code alone sees is booked and released by one slot; what lasts through the
    step is neither.
    """
    for number in range(len(program.parts)):
        rows = _Rows.of(program, number)
        stage = number // program.num_variants
        yield from dict.fromkeys(f"stage {stage}: {fault}" for fault in rows.faults())


@dataclass(frozen=True)
class _Seen:
    """A buffer as one code sees it for one instance, and whether it books or releases it."""

    code: str
    name: str
    slot: Slot
    releases: bool

    @property
    def booked_as(self) -> tuple[str, int, str]:
        """What must be the same for all who see the buffer."""
        return str(self.slot.category), self.slot.num_bytes, str(self.slot.place)

    def __str__(self) -> str:
        does = "releases" if self.releases else "books"
        what = f"{self.slot.num_bytes:,} bytes of {self.slot.category} on the {self.slot.place}"
        return f"{self.code} {does} {self.name} as {what}"


@dataclass(frozen=True)
class _Rows:
    """What the executions of a part book and release, in program order.

    Of every row: ``seen`` is an index into ``kinds``; ``buffer`` tells a name and micro-batch.
    """

    kinds: list[_Seen]
    seen: Ints
    buffer: Ints

    @classmethod
    def of(cls, program: Program, number: int) -> _Rows:
        part = program.parts[number]
        pairs = {(run.code, run.instance): None for run in part.executions}
        order = {pair: index for index, pair in enumerate(pairs)}
        kinds = [list(_seen(program, number, *pair)) for pair in pairs]
        names: dict[str, int] = {}
        first = np.cumsum([0, *map(len, kinds)])
        flat = [each for found in kinds for each in found]
        named = np.array([names.setdefault(each.name, len(names)) for each in flat], dtype=np.int64)
        scope = np.array([_SCOPES.index(each.slot.scope) for each in flat], dtype=np.int64)
        which = np.array([order[run.code, run.instance] for run in part.executions], dtype=np.int64)
        labels = np.array([[run.label(each) for run in part.executions] for each in _SCOPES], dtype=np.int64)
        times = np.diff(first)[which]
        execution = np.repeat(np.arange(len(which)), times)
        inside = np.arange(len(execution)) - np.repeat(np.cumsum(times) - times, times)
        seen = first[which][execution] + inside
        label = labels[scope[seen], execution] + 1
        return cls(flat, seen, named[seen] * (labels.max(initial=0) + 2) + label)

    def faults(self) -> Iterator[str]:
        """Releases without a booking before them, and whoever sees a buffer otherwise than it is booked."""
        releases = np.array([each.releases for each in self.kinds], dtype=np.bool_)[self.seen]
        first, last = (np.full(int(self.buffer.max(initial=-1)) + 1, _NONE) for _ in range(2))
        # Of several assignments to one place the last one stays.
        books, drops = np.flatnonzero(~releases)[::-1], np.flatnonzero(releases)
        first[self.buffer[books]], last[self.buffer[drops]] = books, drops
        for row in last[(first == _NONE) & (last != _NONE)].tolist():
            yield f"{self._told(row)}, which nothing books"
        for row in last[(first > last) & (last != _NONE)].tolist():
            yield f"{self._told(row)} before it is booked"
        alike: dict[tuple[str, int, str], int] = {}
        kind = np.array([alike.setdefault(each.booked_as, len(alike)) for each in self.kinds], dtype=np.int64)
        booked = first[self.buffer]
        unlike = np.flatnonzero((booked != _NONE) & (kind[self.seen] != kind[self.seen[booked]]))
        for row in unlike.tolist():
            yield f"{self._told(row)}, but {self._told(int(booked[row]))}"

    def _told(self, row: int) -> str:
        return str(self.kinds[self.seen[row]])


def _seen(program: Program, number: int, code: int, instance: str) -> Iterator[_Seen]:
    """What a code books and releases for an instance, in program order."""
    found, part = program.codes[code], program.parts[number]
    rows = [(min(at), False, slot) for slot, at in found.books.items()]
    rows += [(max(at), True, slot) for slot, at in found.dropped.items()]
    for _, releases, index in sorted(rows):
        slot = found.slots[index]
        if slot.scope in _SCOPES and slot.num_bytes:
            yield _Seen(found.name, part.buffer(instance, slot.name), slot, releases)
