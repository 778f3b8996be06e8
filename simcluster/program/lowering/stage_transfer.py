"""Transfers between pipeline stages: the code that sends or receives one value.

Where ranks of a stage hold the same value, each may send a part of it; the receivers gather the parts
(scatter-gather, arXiv 2104.04473 section 4.1).
"""

from __future__ import annotations

from dataclasses import replace

from simcluster.layout import FLAT, Mesh, Movement, MovementKind
from simcluster.model import Role, Value
from simcluster.plan import collective_bytes
from simcluster.program.isa import (
    COMPUTE,
    Call,
    Category,
    Instruction,
    InstructionBlock,
    InstructionKind,
    Purpose,
    Scope,
    Slot,
    collective_stream,
    is_send_stream,
)
from simcluster.program.lowering.memory_categories import boundary_category
from simcluster.program.lowering.storage import local_type

TRANSFER = "transfer"


def transferred_slot(value: Value, mesh: Mesh) -> Slot:
    """The buffer of a value that is sent to another stage; it is called ``value`` at both ends."""
    local = local_type(value, mesh)
    assert value.layout is not None
    category = boundary_category(value.role)
    return Slot("value", Scope.MICRO_BATCH, local, category, local.num_bytes, value.type, value.layout)


def transfer_block(
    stream: str, slot: Slot, role: Role, mesh: Mesh, axes: tuple[str, ...]
) -> InstructionBlock:
    """The code that moves ``slot`` over a transfer stream, in parts over those of ``axes`` with replicas."""
    out = is_send_stream(stream)
    what = "gradient" if role is Role.GRADIENT else "activation"
    moving = Instruction(
        f"{'send' if out else 'receive'} {what}",
        InstructionKind.SEND if out else InstructionKind.RECEIVE,
        stream,
        (Call(stream, None, (0,) if out else (), () if out else (0,)),),
        last_uses=(0,) if out else (),
        operation="send_receive",
        num_bytes=slot.num_bytes,
    )
    over = tuple(axis for axis in axes if axis not in slot.layout.axes and mesh.size(axis) > 1)
    if not over or slot.layout.flat:
        return InstructionBlock(stream, TRANSFER, (moving,), (slot,))
    part = _part(slot, mesh, over)
    if out:
        return InstructionBlock(
            stream, TRANSFER, _cut(moving, part, over, what), (slot, replace(part, num_bytes=0))
        )
    return InstructionBlock(stream, TRANSFER, _joined(moving, slot, part, over, what, mesh), (slot, part))


def _part(slot: Slot, mesh: Mesh, over: tuple[str, ...]) -> Slot:
    layout = replace(slot.layout, flat=over)
    local = local_type(Value(slot.whole, layout=layout), mesh)
    return Slot("part", Scope.LOCAL, local, Category.COMMUNICATION, local.num_bytes, slot.whole, layout)


def _cut(sending: Instruction, part: Slot, over: tuple[str, ...], what: str) -> tuple[Instruction, ...]:
    """A view of the rank's part, and its way; the whole is held until it has left."""
    view = Call("part", Movement(MovementKind.SLICE, over, FLAT), (0,), (1,))
    return (
        Instruction(f"part of {what}", InstructionKind.COMPUTE, COMPUTE, (view,)),
        replace(
            sending,
            calls=(replace(sending.calls[0], inputs=(1,)),),
            after=(0,),
            last_uses=(0, 1),
            num_bytes=part.num_bytes,
        ),
    )


def _joined(
    receiving: Instruction, slot: Slot, part: Slot, over: tuple[str, ...], what: str, mesh: Mesh
) -> tuple[Instruction, ...]:
    """The part that comes in, and the whole gathered from everyone's."""
    movement = Movement(MovementKind.ALL_GATHER, over, FLAT)
    gather = Instruction(
        f"gather {what}",
        InstructionKind.COLLECTIVE,
        collective_stream(over, Purpose.PARTS),
        (Call("gather", movement, (1,), (0,)),),
        after=(0,),
        last_uses=(1,),
        operation=str(movement.kind),
        group=over,
        num_bytes=collective_bytes(movement, part.type, slot.type, mesh),
        reason="every rank received a part of what all of them need",
    )
    coming = replace(receiving, calls=(replace(receiving.calls[0], outputs=(1,)),), num_bytes=part.num_bytes)
    return (coming, gather)
