"""A Program that moves bytes and computes nothing: what ranks save, or load, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster import HostPath
from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Mesh
from simcluster.program.isa import (
    BlockExecution,
    Executions,
    Instruction,
    InstructionBlock,
    InstructionKind,
    Program,
    StageProgram,
    StreamId,
)

CHECKPOINT = "checkpoint"
"""What waits for it are charged to, and the name of its executions."""


@dataclass(frozen=True, slots=True, eq=False)
class BytesMoved:
    """Bytes that every rank moves, shape [ranks]: over a way of its host, or to its group over some axes.

    An all-gather and a broadcast count the bytes of the whole; the ranks of a group have equally many.
    ``limit`` is what a copy asks for at most, in bytes/s.
    """

    how: HostPath | Literal["all_gather", "broadcast"]
    num_bytes: NDArray[np.int64]
    axes: tuple[str, ...] = ()
    limit: float = np.inf


def program_of_copies(mesh: Mesh, steps: Sequence[BytesMoved]) -> Program:
    """The Program in which every rank takes these steps, each behind the one before; ranks that move the same
    bytes run one part.
    """
    table = np.stack([step.num_bytes for step in steps], axis=1)
    rows, part = np.unique(table, axis=0, return_inverse=True)
    codes: list[InstructionBlock] = []
    parts: list[StageProgram] = []
    for row in rows.tolist():
        instructions: list[Instruction] = []
        for step, size in zip(steps, row, strict=True):
            if size:
                instructions.append(_instruction(step, size, len(instructions)))
        executions = []
        if instructions:
            executions = [BlockExecution(len(codes), CHECKPOINT, -1, CHECKPOINT)]
            codes.append(InstructionBlock(CHECKPOINT, CHECKPOINT, tuple(instructions), ()))
        parts.append(StageProgram(Executions.of(executions), ()))
    return Program(mesh, "", tuple(codes), tuple(parts), assigned=tuple(part.reshape(-1).tolist()))


def _instruction(step: BytesMoved, size: int, place: int) -> Instruction:
    copied = isinstance(step.how, HostPath)
    return Instruction(
        f"{CHECKPOINT} {step.how}",
        InstructionKind.COPY if copied else InstructionKind.COLLECTIVE,
        StreamId(CHECKPOINT, (CHECKPOINT,)),
        (),
        after=(place - 1,) if place else (),
        operation=str(step.how),
        group=(str(step.how),) if copied else step.axes,
        num_bytes=size,
        bandwidth_limit=step.limit if copied else np.inf,
    )
