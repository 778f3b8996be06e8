"""Copies between device, host memory and disks: their paths, their streams, and what they wait for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from simcluster.cluster import HostPath
from simcluster.model import ANY_TIME, MemoryPlace, Node, Relocation
from simcluster.program.isa import (
    COMPUTE,
    HOST,
    OFFLOAD,
    BlockExecution,
    Call,
    Executions,
    Instruction,
    InstructionBlock,
    InstructionKind,
    Slot,
    StreamId,
)

HOST_PATHS: Mapping[tuple[MemoryPlace, MemoryPlace], HostPath] = {
    (MemoryPlace.HOST, MemoryPlace.DEVICE): HostPath.TO_DEVICE,
    (MemoryPlace.DEVICE, MemoryPlace.HOST): HostPath.FROM_DEVICE,
    (MemoryPlace.DISK, MemoryPlace.HOST): HostPath.FROM_DISKS,
    (MemoryPlace.HOST, MemoryPlace.DISK): HostPath.TO_DISKS,
}
"""(From, to) -> the path within the host."""

STREAMS = {way: StreamId(f"{OFFLOAD} ({way})", (OFFLOAD,)) for way in HOST_PATHS.values()}
"""Every path has a copy engine, and so a stream, of its own."""


def host_path_of(relocation: Relocation) -> HostPath:
    """The path of a relocation within its host."""
    return HOST_PATHS[relocation.source, relocation.target]


def copy_instruction(node: Node, relocation: Relocation, call: Call, slots: Sequence[Slot]) -> Instruction:
    """The instruction that copies one value from one place to another."""
    way = host_path_of(relocation)
    return Instruction(
        node.name,
        InstructionKind.COPY,
        STREAMS[way],
        (call,),
        operation=str(way),
        group=(str(way),),
        num_bytes=sum(slots[slot].type.num_bytes for slot in call.inputs),
        bandwidth_limit=relocation.bandwidth_limit,
        reason=node.why,
    )


def kernels_awaited(index: int, instructions: Sequence[Instruction]) -> Iterator[int]:
    """The instructions that a copy to the device waits for, so that memory for it is free.

    Kernels for which something is brought take turns. Before what the next one needs comes, the one as many
    turns before it as its relocation says is over, and what it made is back.
    """
    bringing = instructions[index]
    relocation = bringing.calls[0].operator if bringing.calls else None
    if not isinstance(relocation, Relocation):
        return
    if relocation.target is MemoryPlace.DISK or relocation.source is MemoryPlace.DEVICE:
        return
    users = list(_users(instructions))
    reader = next(_readers(bringing, instructions, index), None)
    if reader is None or reader not in users:
        return
    # Where other kernels than those that this was brought ahead of take turns, too, it may stand earlier.
    over = [user for user in users[: max(0, users.index(reader) - relocation.ahead)] if user < index]
    if not over:
        return
    before = over[-1]
    yield before
    made = {before}
    for other in range(before + 1, index):
        copy = instructions[other]
        if _relocates(copy) and any(
            not set(copy.reads).isdisjoint(instructions[maker].writes) for maker in made
        ):
            made.add(other)
            yield other


def order_copies(executions: Executions, codes: Sequence[InstructionBlock]) -> Executions:
    """The executions of a part, copies of their own operands to the device delayed until memory is free.

    Not before the execution of kernels is over that stands as many places ahead of the one before it as its
    relocations say, copies included: so few of them hold theirs on the device at once.
    """
    used = dict.fromkeys(code for code, _ in executions.pairs)
    ahead = {number: depth for number in used if (depth := _ahead(codes[number])) is not None}
    if not ahead:
        return executions
    made: list[BlockExecution] = []
    kernels: list[int] = []
    for place, execution in enumerate(executions.objects):
        depth = ahead.get(execution.code)
        if depth is not None and len(kernels) > depth:
            execution = replace(execution, after=(*execution.after, (kernels[-1 - depth], 0)))
        made.append(execution)
        if not {COMPUTE, HOST}.isdisjoint(codes[execution.code].streams):
            kernels.append(place)
    return Executions.of(made)


def _ahead(code: InstructionBlock) -> int | None:
    """How far ahead of its kernels a code brings something for them; None if it brings nothing."""
    users = set(_users(code.instructions))
    depths = [
        call.operator.ahead
        for index, instruction in enumerate(code.instructions)
        for call in instruction.calls
        if isinstance(call.operator, Relocation)
        and call.operator.ahead < ANY_TIME
        and not users.isdisjoint(_readers(instruction, code.instructions, index))
    ]
    return max(depths, default=None)


def _users(instructions: Sequence[Instruction]) -> Iterator[int]:
    """The kernels of a code that read what is brought to them in turn, in order."""
    brought: set[int] = set()
    for index, instruction in enumerate(instructions):
        if _relocates(instruction):
            brought.update(instruction.writes if _in_turn(instruction) else ())
        elif not brought.isdisjoint(instruction.reads):
            yield index


def _readers(copy: Instruction, instructions: Sequence[Instruction], start: int) -> Iterator[int]:
    """The kernels that read what a copy brings, or what further copies make of it."""
    written = set(copy.writes)
    for index in range(start + 1, len(instructions)):
        instruction = instructions[index]
        if written.isdisjoint(instruction.reads):
            continue
        if _relocates(instruction):
            written.update(instruction.writes)
        else:
            yield index


def _in_turn(instruction: Instruction) -> bool:
    """Whether a copy waits for room where it goes."""
    return any(
        isinstance(call.operator, Relocation) and call.operator.ahead < ANY_TIME for call in instruction.calls
    )


def _relocates(instruction: Instruction) -> bool:
    """Whether an instruction copies values from one place to another."""
    return bool(instruction.calls) and isinstance(instruction.calls[0].operator, Relocation)
