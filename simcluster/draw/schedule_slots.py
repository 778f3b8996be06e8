"""A schedule's text laid out in time: which stage does what when, if actions take a whole number of units.

The text is that of DESIGN 4.5: a line per stage, with actions such as ``F3``, ``B3c1`` or ``F3&B1``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from simcluster.deferred_dataclass import dataclass

LENGTHS: Mapping[str, int] = MappingProxyType({"F": 1, "B": 2, "I": 1, "W": 1, "R": 1})
"""Units of time of each kind of action: a backward pass has twice the work of a forward pass."""

_ACTION = re.compile(r"([A-Z])(\d+)(?:c(\d+))?(?:s(\d+))?")

_Key = tuple[str, int, int, int, int]


@dataclass(frozen=True, slots=True)
class ScheduleSlot:
    """One action of one stage: ``start`` and ``length`` in units, ``kind`` the letters of its halves."""

    label: str
    kind: str
    start: int
    length: int

    @property
    def end(self) -> int:
        """The unit in which it is over."""
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class _Half:
    kind: str
    micro_batch: int
    chunk: int
    part: int

    def key(self, stage: int) -> _Key:
        kind = "B" if self.kind == "I" else self.kind
        return kind, self.micro_batch, self.chunk, self.part, stage

    def needs(self, stage: int, order: _Order) -> _Key | None:
        """What must be over before: the same on the piece before or, going backward, on the one behind."""
        here = order.index.get((stage, self.chunk))
        step = {"F": -1, "B": 1, "I": 1}.get(self.kind)
        if here is None or step is None or not 0 <= here + step < len(order.places):
            return None
        before, chunk = order.places[here + step]
        return _Half(self.kind, self.micro_batch, chunk, self.part).key(before)


@dataclass(frozen=True)
class _Order:
    """The pieces of the model as (stage, chunk), in the order of the forward pass."""

    places: Sequence[tuple[int, int]]

    @cached_property
    def index(self) -> Mapping[tuple[int, int], int]:
        return {place: number for number, place in enumerate(self.places)}


def schedule_layout(
    schedule: str,
    lengths: Mapping[str, int] = LENGTHS,
    places: Sequence[tuple[int, int]] = (),
) -> list[list[ScheduleSlot]]:
    """Per stage its actions, each as early as the order within the stage and the neighbouring stages allow.

    ``places`` are the pieces of the model as (stage, chunk), in the order of the forward pass; if they are
    not given, each chunk begins on the first stage. Of an overlapped pair both halves have their time. Words
    that are no actions take one unit. A text that could not run is drawn all the same: what is stuck starts
    as soon as its stage is free.
    """
    rows = [line.split() for line in schedule.strip().splitlines()]
    halves = [[_halves(word) for word in row] for row in rows]
    written = {half.key(stage) for stage, row in enumerate(halves) for word in row for half in word}
    chunks = 1 + max((half.chunk for row in halves for word in row for half in word), default=0)
    order = _Order(places or [(stage, chunk) for chunk in range(chunks) for stage in range(len(rows))])
    placed: list[list[ScheduleSlot]] = [[] for _ in rows]
    over: dict[_Key, int] = {}
    while any(len(done) < len(row) for done, row in zip(placed, rows, strict=True)):
        ready = [
            stage
            for stage, row in enumerate(halves)
            if len(placed[stage]) < len(row)
            and _blocking(row[len(placed[stage])], stage, order, written) <= over.keys()
        ]
        stuck = [stage for stage, row in enumerate(rows) if len(placed[stage]) < len(row)][:1]
        for stage in ready or stuck:
            _place(stage, rows[stage], halves[stage], placed[stage], over, order, lengths)
    return placed


def chunk_of(label: str) -> int:
    """The chunk that an action works on, of a pair that of its first half; 0 if none is named."""
    halves = _halves(label)
    return halves[0].chunk if halves else 0


def _halves(word: str) -> list[_Half]:
    matches = [_ACTION.fullmatch(half) for half in word.split("&")]
    return [
        _Half(match[1], int(match[2]), int(match[3] or 0), int(match[4] or 0)) for match in matches if match
    ]


def _blocking(word: Sequence[_Half], stage: int, order: _Order, written: set[_Key]) -> set[_Key]:
    return {key for half in word if (key := half.needs(stage, order)) in written}


def _place(
    stage: int,
    words: Sequence[str],
    halves: Sequence[Sequence[_Half]],
    placed: list[ScheduleSlot],
    over: dict[_Key, int],
    order: _Order,
    lengths: Mapping[str, int],
) -> None:
    position = len(placed)
    word = halves[position]
    free = placed[-1].end if placed else 0
    start = max([free, *(over.get(half.needs(stage, order) or half.key(stage), 0) for half in word)])
    length = sum(lengths.get(half.kind, 1) for half in word) or 1
    placed.append(ScheduleSlot(words[position], "".join(half.kind for half in word), start, length))
    for half in word:
        over[half.key(stage)] = start + length
