"""The order of a replay: starts and ends of all instructions, and the members of each collective."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import field

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Mesh
from simcluster.model import Array, MemoryPlace
from simcluster.program import (
    SENDER_OF,
    BlockExecution,
    Instruction,
    InstructionBlock,
    InstructionKind,
    Program,
    Scope,
    Slot,
    StageProgram,
    peer_is_next_stage,
)
from simcluster.trace import Table

Key = tuple[MemoryPlace, str, int, int]
"""What tells the buffers of a rank apart: place, name, and the execution or the step and micro-batch."""

ALONE = (
    InstructionKind.COMPUTE,
    InstructionKind.COPY,
    InstructionKind.PUSH,
    InstructionKind.PULL,
    InstructionKind.GATE,
)
"""Instructions that no other rank takes part in."""


# What is made for every instruction of every rank is not frozen, which costs a call for every field.
@dataclass(slots=True, eq=False)
class BufferWrite:
    """What an instruction puts into a slot, or adds to what is there."""

    slot: int
    array: Array
    adds: bool


@dataclass(slots=True, eq=False)
class Event:
    """One instruction of one execution on one rank."""

    rank: int
    """Who runs it."""
    part: StageProgram
    """What the ranks of its stage run."""
    code: InstructionBlock
    """The block that it is in."""
    execution: BlockExecution
    """The execution of that block."""
    number: int
    """The number of the execution on its rank."""
    step: int
    """The step that the execution is in."""
    instruction: Instruction
    """What is run."""
    keys: Sequence[Key]
    """The buffers of the slots of its block."""
    start: int
    """When it begins, in nanoseconds."""
    end: int
    """When it ends, in nanoseconds."""
    made: dict[Key, BufferWrite] = field(default_factory=dict)
    """What it has made and nobody else sees before its end."""

    @property
    def label(self) -> str:
        """How messages call it."""
        return (
            f"{self.execution.instance}.{self.instruction.name} ({self.execution.action}) on rank {self.rank}"
        )


def replay_events(program: Program, spans: Table) -> Iterator[Event]:
    """The events of an unfolded run, by start, rank, stream and place on the stream."""
    tie = ("instruction", "execution", "stream", "class", "start")
    order = np.lexsort([spans[name] for name in tie])
    names = ("class", "code", "execution", "step", "instruction", "start", "end")
    columns = [spans[name][order].tolist() for name in names]
    parts = [program.part_of(rank) for rank in range(program.mesh.num_ranks)]
    keys: dict[tuple[int, int], list[Key]] = {}
    for rank, index, number, step, instruction, start, end in zip(*columns, strict=True):
        part, code = program.parts[parts[rank]], program.codes[index]
        execution = part.executions[number % len(part.executions)]
        used = keys.get((parts[rank], number))
        if used is None:
            used = [_key_of(slot, part, execution, number, step) for slot in code.slots]
            keys[parts[rank], number] = used
        run = code.instructions[instruction]
        yield Event(rank, part, code, execution, number, step, run, used, start, end)


def _key_of(slot: Slot, part: StageProgram, execution: BlockExecution, number: int, step: int) -> Key:
    if slot.scope is Scope.LOCAL:
        return (slot.place, slot.name, number, -1)
    name = part.buffer(execution.instance, slot.name)
    if slot.scope is Scope.STEP:
        return (slot.place, name, 0, 0)
    return (slot.place, name, step, execution.label(slot.scope))


class EventMoment(enum.IntEnum):
    """What of an event happens at a time; of one time in this order.

    What takes no time may read what has just ended, and be read by what begins.
    """

    END = 0
    WHOLE = 1
    START = 2


def event_moments(happened: Sequence[Event]) -> Iterator[tuple[int, int]]:
    """The starts and ends of events by number, in the order in which they happen; ties as events stand."""
    start, end = (np.array([getattr(event, name) for event in happened]) for name in ("start", "end"))
    lasting = np.flatnonzero(start != end)
    index = np.concatenate([np.arange(len(start)), lasting])
    moment = np.full(len(index), EventMoment.END)
    moment[: len(start)] = np.where(start != end, EventMoment.START, EventMoment.WHOLE)
    order = np.lexsort([index, moment, np.concatenate([start, end[lasting]])])
    return zip(index[order].tolist(), moment[order].tolist(), strict=True)


def meeting_events(program: Program, happened: Sequence[Event]) -> dict[int, list[int]]:
    """Communication event -> the events of all members of the collective: the k-th of each in the group."""
    met: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    counts: defaultdict[tuple[object, ...], int] = defaultdict(int)
    number = {axes: numbers_of_groups(program.mesh, axes) for axes in program.groups}
    for index, event in enumerate(happened):
        instruction = event.instruction
        if instruction.action in ALONE:
            continue
        if instruction.action is InstructionKind.COLLECTIVE:
            key: tuple[object, ...] = (
                instruction.stream,
                instruction.group,
                number[instruction.group][event.rank],
            )
        else:
            key = _pair(program, event)
        counts[key, event.rank] += 1
        met[key, counts[key, event.rank]].append(index)
    return {index: members for members in met.values() for index in members}


def numbers_of_groups(mesh: Mesh, axes: tuple[str, ...]) -> dict[int, int]:
    """Rank -> the number of its group along these axes."""
    return {int(rank): index for index, members in enumerate(mesh.groups(axes)) for rank in members}


def _pair(program: Program, event: Event) -> tuple[object, ...]:
    """Sender and receiver of a transfer, and the sender's stream."""
    stream = event.instruction.stream
    line = program.mesh.groups((program.stage_axis,))
    row = line[np.flatnonzero((line == event.rank).any(axis=1))[0]].tolist()
    peer = row[(row.index(event.rank) + (1 if peer_is_next_stage(stream) else -1)) % len(row)]
    if event.instruction.action is InstructionKind.SEND:
        return (stream, event.rank, peer)
    return (SENDER_OF[stream], peer, event.rank)
