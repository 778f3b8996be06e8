"""Where the classes of a sweep meet: rendezvous of groups and of transfers, as maxima over vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.prices import UnequalDurations
from simcluster.engine.stage import Stage
from simcluster.program import (
    RECEIVER_OF,
    SENDER_OF,
    Instruction,
    InstructionKind,
    Program,
    RankClasses,
    peer_is_next_stage,
)

Ints = NDArray[np.int64]
Ended = Sequence[tuple[int, int, Ints]]
"""(stage, stream, ends of its current entry) of all who took part."""


class Rendezvous(ABC):
    """A place where an entry of one stage, or of several, ends for all at once."""

    @abstractmethod
    def join(self, stage: int, ready: Ints, duration: Ints) -> Ended | None:
        """A stage arrives; gives the ends once nobody is missing."""


@dataclass(frozen=True)
class Favourite(Rendezvous):
    """The groups of a stage that lie across the rows of its columns."""

    stream: int

    def join(self, stage: int, ready: Ints, duration: Ints) -> Ended:
        """All are here."""
        return [(stage, self.stream, (ready.max(axis=0) if ready.ndim == 2 else ready) + duration)]


@dataclass(frozen=True)
class Inside(Rendezvous):
    """Any groups of one stage: columns in the ``order`` of groups, which begin at ``first``.

    ``group_of`` is the group of each column.
    """

    stream: int
    shape: tuple[int, int]
    order: Ints
    first: Ints
    group_of: Ints

    def join(self, stage: int, ready: Ints, duration: Ints) -> Ended:
        """All are here."""
        flat = np.broadcast_to(ready, self.shape).ravel()
        met = np.maximum.reduceat(flat[self.order], self.first)[self.group_of]
        return [(stage, self.stream, met.reshape(self.shape) + duration)]


@dataclass
class Across(Rendezvous):
    """Groups, or pairs of sender and receiver, of several stages: (stage, stream, shape) of those who come.

    ``order``, ``first`` and ``group_of`` are over the columns of all of them, one stage after the other.
    """

    parties: Sequence[tuple[int, int, tuple[int, int]]]
    order: Ints
    first: Ints
    group_of: Ints
    here: dict[int, tuple[Ints, Ints]] = field(default_factory=dict)

    def join(self, stage: int, ready: Ints, duration: Ints) -> Ended | None:
        """The ends, once every stage is here; Uneven if durations differ in a group."""
        shapes = {number: shape for number, _, shape in self.parties}
        self.here[stage] = (np.broadcast_to(ready, shapes[stage]).ravel(), duration.ravel())
        if len(self.here) < len(self.parties):
            return None
        found = self.met(self.here)
        self.here.clear()
        return found

    def met(self, here: Mapping[int, tuple[Ints, Ints]]) -> Ended:
        """The ends for who is ready, and busy, by stage and column; Uneven as ``join`` says."""
        arrived, spent = (
            np.concatenate([here[number][which] for number, _, _ in self.parties]) for which in (0, 1)
        )
        most = np.maximum.reduceat(spent[self.order], self.first)
        if not np.array_equal(most[self.group_of], spent):
            raise UnequalDurations
        ends = (np.maximum.reduceat(arrived[self.order], self.first) + most)[self.group_of]
        sizes = np.cumsum([rows * columns for _, _, (rows, columns) in self.parties])[:-1]
        return [
            (number, stream, part.reshape(shape))
            for (number, stream, shape), part in zip(self.parties, np.split(ends, sizes), strict=True)
        ]


def meetings(
    program: Program, classes: RankClasses, stages: Sequence[Stage]
) -> Mapping[tuple[int, int, int], Rendezvous]:
    """(stage, code, instruction) -> where it meets, of every collective and transfer."""
    return _Places(program, classes, stages).all()


@dataclass
class _Places:
    program: Program
    classes: RankClasses
    stages: Sequence[Stage]
    known: dict[object, Rendezvous] = field(default_factory=dict)

    def all(self) -> Mapping[tuple[int, int, int], Rendezvous]:
        stage_of = np.empty(len(self.classes), dtype=np.int64)
        for stage in self.stages:
            stage_of[stage.columns] = stage.number
        self.stage_of = stage_of
        return {
            (stage.number, code, index): self._place(stage, each)
            for stage in self.stages
            for code in stage.codes
            for index, each in enumerate(self.program.codes[code].instructions)
            if each.action not in (InstructionKind.COMPUTE, InstructionKind.COPY)
        }

    def _place(self, stage: Stage, each: Instruction) -> Rendezvous:
        if each.action is not InstructionKind.COLLECTIVE:
            return self._pair(stage, each)
        stream = stage.streams[each.stream]
        if each.group == stage.favourite:
            return self.known.setdefault((stage.number, stream), Favourite(stream))
        ids = {index: self.classes.groups[index, each.group] for index in stage.columns.tolist()}
        met = {group.id: group.members for group in ids.values()}
        parties = sorted(
            {number for members in met.values() for number in self.stage_of[list(members)].tolist()}
        )
        key = (each.stream, each.group, tuple(parties))
        if key not in self.known:
            groups = [
                np.array([self.classes.groups[index, each.group].id for index in self.stages[number].columns])
                for number in parties
            ]
            order, first, group_of = _sorted(np.concatenate(groups))
            if len(parties) == 1:
                self.known[key] = Inside(stream, stage.shape, order, first, group_of)
            else:
                self.known[key] = Across(
                    self._parties(parties, [each.stream] * len(parties)), order, first, group_of
                )
        return self.known[key]

    def _pair(self, stage: Stage, each: Instruction) -> Rendezvous:
        """The transfers between two stages, whose columns are joined one by one."""
        sends = each.action is InstructionKind.SEND
        stream = each.stream if sends else SENDER_OF[each.stream]
        forward = peer_is_next_stage(stream)
        other = (stage.number + (1 if peer_is_next_stage(each.stream) else -1)) % len(self.stages)
        sender, receiver = (stage.number, other) if sends else (other, stage.number)
        key = (stream, sender)
        if key not in self.known:
            peers = self.classes.next_stage if forward else self.classes.prev_stage
            columns = self.stages[sender].columns
            group = np.empty(len(self.classes), dtype=np.int64)
            group[columns] = np.arange(len(columns))
            for column, index in enumerate(columns.tolist()):
                group[peers[index][0]] = column
            both = [sender, receiver]
            found = _sorted(np.concatenate([group[self.stages[number].columns] for number in both]))
            self.known[key] = Across(self._parties(both, [stream, RECEIVER_OF[stream]]), *found)
        return self.known[key]

    def _parties(
        self, numbers: Sequence[int], streams: Sequence[str]
    ) -> list[tuple[int, int, tuple[int, int]]]:
        return [
            (number, self.stages[number].streams.get(stream, -1), self.stages[number].shape)
            for number, stream in zip(numbers, streams, strict=True)
        ]


def _sorted(groups: Ints) -> tuple[Ints, Ints, Ints]:
    """The order of columns by group, where each group begins in it, and the group of each column."""
    _, group_of = np.unique(groups, return_inverse=True)
    order = np.argsort(group_of, kind="stable")
    first = np.searchsorted(group_of[order], np.arange(group_of.max() + 1))
    return order, first, group_of.reshape(-1)
