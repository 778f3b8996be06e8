"""Copies of fully sharded weights behind their gathers, and of gradients before they are scattered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simcluster.layout import Movement
from simcluster.model import Block, Phase
from simcluster.program.isa import Instruction, InstructionKind, Slot
from simcluster.program.lowering.collective_copies import ORDERED
from simcluster.work import Kernel, Work

FLAT, BY_PARAMETER = "flat", "by_parameter"

_NARROWEST = 2
"""Bytes of an element of a gradient at least: there are none in fp8."""


def with_unit_copies(
    instructions: Sequence[Instruction], slots: Sequence[Slot], block: Block, copies: str
) -> list[Instruction]:
    """The kernels with these ``copies`` of a block's sharded weights and gradients.

    What was gathered is copied before the kernel that reads it first. A gradient that is to be scattered is
    copied behind the kernel that makes it. That one writes it in the format of the reduction here, and in
    that of what it reads there.
    """
    scattered = {value for node in block.phase(Phase.SCATTER) for value in node.inputs}
    gathered = {
        value
        for phase in (Phase.GATHER, Phase.REGATHER)
        for node in block.phase(phase)
        if isinstance(node.operator, Movement)
        for value in node.outputs
    }
    made = list(instructions)
    for place, instruction in enumerate(instructions):
        if instruction.action is not InstructionKind.COMPUTE:
            continue
        works = []
        for slot in instruction.reads if copies == BY_PARAMETER else ():
            if slots[slot].name in gathered:
                gathered.remove(slots[slot].name)
                works.append(_copy(slots[slot], slots[slot].type.num_bytes, slots[slot].type.num_bytes))
        for slot in instruction.writes:
            if slots[slot].name in scattered:
                works.append(_gradient_copy(slots, instruction, slot, copies))
        if works:
            made[place] = replace(instruction, works=(*instruction.works, *works))
    return made


def _gradient_copy(slots: Sequence[Slot], instruction: Instruction, slot: int, copies: str) -> Work:
    """What a gradient is read and written besides, until it is scattered."""
    whole = slots[slot].type
    narrow = min((slots[read].type.dtype.itemsize for read in instruction.reads), default=_NARROWEST)
    made = whole.num_bytes * min(1.0, max(narrow, _NARROWEST) / whole.dtype.itemsize)
    if copies == BY_PARAMETER:  # made, read and written, less what is written here
        return _copy(slots[slot], made, made)
    cast = made < whole.num_bytes
    read = made + cast * made + whole.num_bytes
    return _copy(slots[slot], read, 2 * made + cast * whole.num_bytes)


def _copy(slot: Slot, read: float, written: float) -> Work:
    return Work(Kernel.COPY, slot.type.dtype, 0, round(read), round(written), (ORDERED,))
