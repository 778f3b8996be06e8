"""The checker: what must hold of any Program before it is run.

Everything read is written before, transfers have counterparts, all members of a group issue their collectives
in one order, and no category of memory goes below zero.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

import numpy as np

from simcluster.collectives import UnequalPartsByGroup
from simcluster.errors import SimulationError
from simcluster.number_arrays import Ints
from simcluster.program.isa import (
    OWN,
    RECEIVER_OF,
    Instruction,
    InstructionBlock,
    InstructionKind,
    Program,
    Scope,
    StepGate,
    peer_is_next_stage,
)
from simcluster.program.memory_balance import booking_faults
from simcluster.program.symmetry import RankClasses

_Issue = tuple[str, str, int, UnequalPartsByGroup | None]


def check_program(program: Program, classes: RankClasses) -> None:
    """SimulationError, with every fault found, if the Program cannot be right."""
    faults = [fault for code in program.codes for fault in _code_faults(code)]
    faults += _transfer_faults(program)
    faults += _order_faults(program, classes)
    faults += _gate_faults(program, classes)
    faults += booking_faults(program)
    if faults:
        raise SimulationError(*faults)


def _gate_faults(program: Program, classes: RankClasses) -> Iterator[str]:
    """Gates count in every step as many as are waited for, at least."""
    if not program.has_gates:
        return
    counted: Counter[tuple[str, int | None]] = Counter()
    waits: dict[tuple[str, int | None], tuple[int, str]] = {}
    for index, rank in enumerate(classes.representatives):
        for code, times in program.parts[program.part_of(rank)].columns.times().items():
            for instruction in program.codes[code].instructions:
                for gate in instruction.opens:
                    counted[_resolved(gate, rank)] += times * classes.sizes[index]
                if (wait := instruction.gate) is not None:
                    waits[_resolved(wait.gate, rank)] = wait.count, f"rank {rank}, {instruction.name}"
    for key, (count, who) in waits.items():
        if counted[key] < count:
            gate = StepGate(*key)
            yield f"{who}: gate '{gate}' counts {counted[key]} in a step, but {count} are waited for"


def _resolved(gate: StepGate, rank: int) -> tuple[str, int | None]:
    """A gate as a rank means it."""
    return gate.name, rank if gate.rank == OWN else gate.rank


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


def _issues(
    program: Program, part: int, wanted: Callable[[Instruction], bool]
) -> tuple[list[Instruction], Ints]:
    """The instructions wanted of everything that a part runs, in order: the different ones, and of each
    issue which of these it is and its micro-batch [2, issues].
    """
    columns = program.parts[part].columns
    by_code = {
        code: [instruction for instruction in program.codes[code].instructions if wanted(instruction)]
        for code in {code for code, _ in columns.pairs}
    }
    by_pair = [by_code[code] for code, _ in columns.pairs]
    counts = np.array([len(instructions) for instructions in by_pair], dtype=np.int64)
    times = counts[columns.pair]
    execution = np.repeat(np.arange(len(times)), times)
    first = (np.cumsum(counts) - counts)[columns.pair] - (np.cumsum(times) - times)
    issued = np.arange(len(execution)) + first[execution]
    flat = [instruction for instructions in by_pair for instruction in instructions]
    return flat, np.stack([issued, columns.micro_batch[execution]])


def _transfers(program: Program, part: int) -> dict[str, Ints]:
    """Micro-batch and bytes of everything that a part sends and receives, in order, by stream [2, issues]."""
    moves = (InstructionKind.SEND, InstructionKind.RECEIVE)
    flat, (issued, micro_batch) = _issues(program, part, lambda instruction: instruction.action in moves)
    sizes = np.array([instruction.num_bytes for instruction in flat], dtype=np.int64)
    streams = np.array([instruction.stream for instruction in flat])
    transfers = np.stack([micro_batch, sizes[issued]])
    return {stream: transfers[:, (streams == stream)[issued]] for stream in dict.fromkeys(streams.tolist())}


def _transfer_faults(program: Program) -> Iterator[str]:
    """Neighbouring stages send and receive the same micro-batches in the same order."""
    variants, parts = program.num_variants, len(program.parts)
    transfers = [_transfers(program, part) for part in range(parts)]
    nothing = np.zeros((2, 0), dtype=np.int64)
    for part in range(parts if program.ring else parts - variants):
        after = (part + variants) % parts
        for out, into in RECEIVER_OF.items():
            sender, receiver = (part, after) if peer_is_next_stage(out) else (after, part)
            sent, got = transfers[sender].get(out, nothing), transfers[receiver].get(into, nothing)
            if not np.array_equal(sent, got):
                yield (
                    f"stage {sender // variants} sends micro-batches {sent[0].tolist()} "
                    f"to stage {receiver // variants}, which receives {got[0].tolist()}"
                )


def _order_faults(program: Program, classes: RankClasses) -> Iterator[str]:
    """Classes that meet in a group issue the same collectives there, in one order on every stream."""
    meeting: defaultdict[tuple[tuple[str, ...], int], list[int]] = defaultdict(list)
    for (index, axes), group in classes.groups.items():
        if len(group.members) > 1:
            meeting[axes, group.id].append(index)
    # Equal instructions of all parts have one number.
    numbers: dict[_Issue, int] = {}
    orders: dict[tuple[int, tuple[str, ...]], Ints] = {}
    for (axes, _), members in meeting.items():
        issued = []
        for index in members:
            part = program.part_of(classes.representatives[index])
            if (part, axes) not in orders:
                orders[part, axes] = _order(program, part, axes, numbers)
            issued.append(orders[part, axes])
        if any(order is not issued[0] and not np.array_equal(order, issued[0]) for order in issued):
            yield f"members of a group over {'+'.join(axes)} issue different collectives"


def _order(program: Program, part: int, axes: tuple[str, ...], numbers: dict[_Issue, int]) -> Ints:
    """What a part issues over some axes, and for which micro-batch, in order, one stream after another
    [2, issues].
    """

    def meets(instruction: Instruction) -> bool:
        return instruction.action is InstructionKind.COLLECTIVE and instruction.group == axes

    flat, (issued, micro_batch) = _issues(program, part, meets)
    kinds = [
        (instruction.stream, instruction.operation, instruction.num_bytes, instruction.parts)
        for instruction in flat
    ]
    kind = np.array([numbers.setdefault(issue, len(numbers)) for issue in kinds], dtype=np.int64)
    streams = np.unique([str(instruction.stream) for instruction in flat], return_inverse=True)[1]
    by_stream = np.argsort(streams[issued], kind="stable")
    return np.stack([kind[issued], micro_batch])[:, by_stream]
