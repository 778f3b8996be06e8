"""Copies beside collectives of activations, where the library gathers along the first dim alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simcluster.layout import Movement, MovementKind
from simcluster.program.isa import Instruction, InstructionKind, Slot
from simcluster.work import Kernel, Work

ORDERED = ("ordered", 1)
"""The size by which such copies are told from the work of operators."""


def with_copies(
    instructions: Sequence[Instruction], slots: Sequence[Slot], axes: Sequence[str]
) -> list[Instruction]:
    """The kernels with the copies that gathers and scatters over ``axes`` need along another dim.

    What is gathered is put in order before the kernel that reads it first; what is scattered, behind the one
    that made it. A copy reads and writes the whole. Collectives in chunks with their matmul need none, but
    what is scattered so arrives as partial sums of all ranks, which are added up in a pass over them
    (torch.distributed._symmetric_memory, from memory).
    """
    made = list(instructions)
    for place, instruction in enumerate(instructions):
        movement = instruction.calls[0].operator if instruction.calls else None
        if not isinstance(movement, Movement) or movement.dim <= 0 or not set(movement.axes) <= set(axes):
            continue
        if movement.kind is MovementKind.ALL_GATHER and not instruction.chunked:
            (slot,) = instruction.writes
            near = (at for at in range(place + 1, len(made)) if slot in made[at].reads)
        elif movement.kind is MovementKind.REDUCE_SCATTER:
            (slot,) = instruction.reads
            near = (at for at in range(place - 1, -1, -1) if slot in made[at].writes)
        else:
            continue
        kernel = next((at for at in near if made[at].action is InstructionKind.COMPUTE), None)
        if kernel is not None:
            whole = slots[slot].type
            kind, written = Kernel.COPY, whole.num_bytes
            if instruction.chunked:
                kind, written = Kernel.ELEMENTWISE, slots[instruction.writes[0]].type.num_bytes
            copy = Work(kind, whole.dtype, 0, whole.num_bytes, written, (ORDERED,))
            made[kernel] = replace(made[kernel], works=(*made[kernel].works, copy))
    return made
