"""What the host dispatches: operators one by one, and subgraphs as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simcluster.program.isa import Instruction, InstructionKind


def dispatch_costs(instructions: Sequence[Instruction], launch: float) -> list[Instruction]:
    """The instructions of a code with the host time of each, in multiples of that for one operator.

    For the first kernel of a graph it launches the graph, which costs ``launch``; the others cost it nothing.
    Everything else is dispatched by itself.
    """
    begun: set[str] = set()
    made = []
    for instruction in instructions:
        if instruction.piece:
            first = runs_kernels(instruction) and instruction.piece not in begun
            instruction = replace(instruction, dispatch_cost=launch if first else 0.0)
            begun.update([instruction.piece] if first else ())
        made.append(instruction)
    return made


def runs_kernels(instruction: Instruction) -> bool:
    """Whether an instruction runs kernels; a view of another buffer has none."""
    return instruction.action is InstructionKind.COMPUTE and bool(instruction.works)
