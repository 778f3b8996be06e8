"""The checker: what must hold of any Program before it is run.

Everything read is written before, transfers have counterparts, all members of a group issue their collectives
in one order, and no category of memory goes below zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from simcluster.collectives import UnequalPartsByGroup
from simcluster.errors import SimulationError
from simcluster.program.isa import (
    RECEIVER_OF,
    Instruction,
    InstructionBlock,
    InstructionKind,
    Program,
    Scope,
    peer_is_next_stage,
)
from simcluster.program.memory_balance import booking_faults
from simcluster.program.symmetry import RankClasses

_Issue = tuple[str, int, UnequalPartsByGroup | None, int]


def check_program(program: Program, classes: RankClasses) -> None:
    """SimulationError, with every fault found, if the Program cannot be right."""
    faults = [fault for code in program.codes for fault in _code_faults(code)]
    faults += _transfer_faults(program)
    faults += _order_faults(program, classes)
    faults += booking_faults(program)
    if faults:
        raise SimulationError(*faults)


def _code_faults(code: InstructionBlock) -> Iterator[str]:
    written: set[int] = set()
    for index, instruction in enumerate(code.instructions):
        for call in instruction.calls:
            for slot in call.inputs:
                if code.slots[slot].scope is Scope.LOCAL and slot not in written:
                    yield f"{code.name}.{call.name} reads {code.slots[slot].name} before it is written"
            written.update(call.outputs)
        if any(other >= index for other in instruction.after):
            yield f"{code.name}.{instruction.name} waits for a later instruction"


def _issues(program: Program, part: int, *wanted: InstructionKind) -> Iterator[tuple[Instruction, int]]:
    """(instruction, micro-batch) of everything of some kinds that a part issues, in order."""
    executions = program.parts[part].executions
    by_code = {
        index: [
            instruction for instruction in program.codes[index].instructions if instruction.action in wanted
        ]
        for index in {execution.code for execution in executions}
    }
    for execution in executions:
        for instruction in by_code[execution.code]:
            yield instruction, execution.micro_batch


def _transfers(program: Program, part: int) -> dict[str, list[tuple[int, int]]]:
    """(micro-batch, bytes) of everything that a part sends and receives, in order, by stream."""
    transfers: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for instruction, micro_batch in _issues(program, part, InstructionKind.SEND, InstructionKind.RECEIVE):
        transfers[instruction.stream].append((micro_batch, instruction.num_bytes))
    return transfers


def _transfer_faults(program: Program) -> Iterator[str]:
    """Neighbouring stages send and receive the same micro-batches in the same order."""
    variants, parts = program.num_variants, len(program.parts)
    transfers = [_transfers(program, part) for part in range(parts)]
    for part in range(parts if program.ring else parts - variants):
        after = (part + variants) % parts
        for out, into in RECEIVER_OF.items():
            sender, receiver = (part, after) if peer_is_next_stage(out) else (after, part)
            sent, got = transfers[sender].get(out, []), transfers[receiver].get(into, [])
            if sent != got:
                yield (
                    f"stage {sender // variants} sends micro-batches {[m for m, _ in sent]} "
                    f"to stage {receiver // variants}, which receives {[m for m, _ in got]}"
                )


def _order_faults(program: Program, classes: RankClasses) -> Iterator[str]:
    """Classes that meet in a group issue the same collectives there, in one order."""
    meeting: defaultdict[tuple[tuple[str, ...], int], list[int]] = defaultdict(list)
    for (index, axes), group in classes.groups.items():
        if len(group.members) > 1:
            meeting[axes, group.id].append(index)
    orders: dict[tuple[int, tuple[str, ...]], list[_Issue]] = {}
    for (axes, _), members in meeting.items():
        issued = []
        for index in members:
            part = program.part_of(classes.representatives[index])
            if (part, axes) not in orders:
                orders[part, axes] = _order(program, part, axes)
            issued.append(orders[part, axes])
        if any(order != issued[0] for order in issued):
            yield f"members of a group over {'+'.join(axes)} issue different collectives"


def _order(program: Program, part: int, axes: tuple[str, ...]) -> list[_Issue]:
    return [
        (instruction.operation, instruction.num_bytes, instruction.parts, micro_batch)
        for instruction, micro_batch in _issues(program, part, InstructionKind.COLLECTIVE)
        if instruction.group == axes
    ]
