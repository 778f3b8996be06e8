"""Transfers between one stage and all stages: a value is broadcast from it, or terms are reduced to it."""

from __future__ import annotations

from dataclasses import replace

from simcluster.layout import Mesh, Movement, MovementKind, rooted_axis
from simcluster.model import Value
from simcluster.program.isa import (
    Call,
    Instruction,
    InstructionBlock,
    InstructionKind,
    Purpose,
    Scope,
    Slot,
    collective_stream,
)
from simcluster.program.lowering.memory_categories import boundary_category
from simcluster.program.lowering.stage_transfer import TRANSFER
from simcluster.program.lowering.storage import local_type


def rooted_block(
    value: Value, stage_axis: str, root: int, mesh: Mesh, purpose: Purpose, *, reduced: bool, at_root: bool
) -> InstructionBlock:
    """The code that broadcasts ``value`` from stage ``root``, or reduces it there; on that stage or another.

    Slot ``value`` is what the root has or gets, ``part`` a stage's term. The root of a broadcast keeps its
    own; the other stages of a reduction get nothing.
    """
    assert value.layout is not None
    kind = MovementKind.REDUCE if reduced else MovementKind.BROADCAST
    group = (rooted_axis(stage_axis, root, mesh.size(stage_axis)),)
    local, category = local_type(value, mesh), boundary_category(value.role)
    term = Slot("part", Scope.MICRO_BATCH, local, category, local.num_bytes, value.type, value.layout)
    whole = replace(term, name="value", layout=value.layout.reduced)
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    last_uses: tuple[int, ...]
    if reduced:
        slots = (term, whole) if at_root else (term,)
        inputs, outputs, last_uses = (0,), tuple(range(1, len(slots))), (0,)
    else:
        slots, last_uses = (whole,), ()
        inputs, outputs = ((0,), ()) if at_root else ((), (0,))
    moving = Instruction(
        str(kind),
        InstructionKind.COLLECTIVE,
        collective_stream(group, purpose),
        (Call(str(kind), Movement(kind, group), inputs, outputs),),
        last_uses=last_uses,
        operation=str(kind),
        group=group,
        num_bytes=local.num_bytes,
        reason="all stages share the vocabulary",
    )
    return InstructionBlock(f"{kind}{purpose}", TRANSFER, (moving,), slots)
