"""The order of a replay: when every instruction of every rank begins and ends, and who meets."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from simcluster.layout import Mesh
from simcluster.model import Array, MemoryPlace
from simcluster.program import (
    SENDER_OF,
    BlockExecution,
    Instruction,
    InstructionBlock,
    InstructionKind,
    Program,
    StageProgram,
    peer_is_next_stage,
)
from simcluster.trace import Table

Key = tuple[MemoryPlace, str, int, int]
"""What tells the buffers of a rank apart: place, name, and the execution or the step and micro-batch."""

ALONE = (InstructionKind.COMPUTE, InstructionKind.COPY)
"""What a rank does by itself; copies bring what is there already, as far as values go."""


@dataclass(frozen=True, slots=True)
class BufferWrite:
    """What an instruction puts into a slot, or adds to what is there."""

    slot: int
    array: Array
    adds: bool


@dataclass(frozen=True, slots=True)
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
    keys: dict[int, Key]
    """The buffers that the execution has used so far, by slot, for all its instructions."""
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
    """Those of an unfolded run, by start, rank, stream and place on the stream."""
    tie = ("instruction", "execution", "stream", "class", "start")
    order = np.lexsort([spans[name] for name in tie])
    names = ("class", "code", "execution", "step", "instruction", "start", "end")
    columns = [spans[name][order].tolist() for name in names]
    parts = [program.parts[program.part_of(rank)] for rank in range(program.mesh.num_ranks)]
    keys: defaultdict[tuple[int, int], dict[int, Key]] = defaultdict(dict)
    for rank, index, number, step, instruction, start, end in zip(*columns, strict=True):
        part, code = parts[rank], program.codes[index]
        execution = part.executions[number % len(part.executions)]
        run = code.instructions[instruction]
        yield Event(rank, part, code, execution, number, step, run, keys[rank, number], start, end)


class EventMoment(enum.IntEnum):
    """What of an event happens at a time; of one time in this order.

    What takes no time may read what has just ended, and be read by what begins.
    """

    END = 0
    WHOLE = 1
    START = 2


def event_moments(happened: Sequence[Event]) -> Iterator[tuple[int, EventMoment]]:
    """The starts and ends of events by number, in the order in which they happen; ties as events stand."""
    moments = []
    for index, event in enumerate(happened):
        if event.start == event.end:
            moments.append((event.start, EventMoment.WHOLE, index))
        else:
            moments += [(event.start, EventMoment.START, index), (event.end, EventMoment.END, index)]
    return ((index, moment) for _, moment, index in sorted(moments))


def meeting_events(program: Program, happened: Sequence[Event]) -> dict[int, list[int]]:
    """For each communication event, the events of all who meet: the k-th of everyone in the group."""
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
