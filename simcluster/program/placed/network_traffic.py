"""What a step of a Program sends over the network, by axis and operation."""

from __future__ import annotations

import numpy as np

from simcluster.collectives import Operation
from simcluster.layout import Mesh
from simcluster.program.isa import WITH_SERVER, Instruction, InstructionKind, charged_to
from simcluster.program.placed.placed_program import PlacedProgram


def sent_bytes(placed: PlacedProgram, steps: int) -> dict[str, dict[str, float]]:
    """Axis -> operation -> bytes that a rank sends per step, mean over ranks."""
    traffic: dict[str, dict[str, float]] = {}
    program, total = placed.program, placed.num_ranks * steps
    for code, runs in placed.executions(steps):
        for instruction in code.instructions:
            sent = _sent(program.mesh, instruction)
            if sent:
                operations = traffic.setdefault(
                    "+".join(charged_to(instruction.stream, program.stage_axis)), {}
                )
                operations[instruction.operation] = (
                    operations.get(instruction.operation, 0.0) + sent * runs / total
                )
    return {axis: dict(sorted(traffic[axis].items())) for axis in sorted(traffic)}


def _sent(mesh: Mesh, instruction: Instruction) -> float:
    """Bytes a member sends on average, as a ring would: nccl-tests' bus bytes."""
    if instruction.action is InstructionKind.SEND or instruction.action in WITH_SERVER:
        return float(instruction.num_bytes)
    if instruction.action is not InstructionKind.COLLECTIVE:
        return 0.0
    ranks = mesh.product(instruction.group)
    if instruction.parts is not None:
        parts = instruction.parts
        away = [(int(own.counts.sum()) - int(np.trace(own.counts))) * own.share for own in parts.tables]
        every = sum(away[number] for number in parts.of_group)
        return instruction.num_bytes * every / ranks / len(parts.of_group)
    return Operation(instruction.operation).copies(ranks) / ranks * instruction.num_bytes
