"""Blocks of instructions written by hand, for tests of what reads them."""

from __future__ import annotations

from simcluster.layout import Layout, Mesh
from simcluster.model import TensorType
from simcluster.program import (
    COMPUTE,
    BlockExecution,
    Call,
    Category,
    InstructionBlock,
    InstructionKind,
    Program,
    Scope,
)
from simcluster.program.isa.executions import Executions
from simcluster.program.isa.instruction import Instruction, Slot
from simcluster.program.isa.program import StageProgram
from simcluster.work import DType

KIND = TensorType((4,), DType.FP32)


def slot(name, scope=Scope.LOCAL, category=Category.ACTIVATIONS, **more):
    return Slot(name, scope, KIND, category, KIND.num_bytes, KIND, Layout.replicated(1), **more)


def instruction(name, reads=(), writes=(), stream=COMPUTE, action=InstructionKind.COMPUTE, adds=(), **more):
    """One launch of one operator on these slots; of ``writes`` it adds to those in ``adds``."""
    places = frozenset(index for index, number in enumerate(writes) if number in adds)
    call = Call(name, None, tuple(reads), tuple(writes), adds=places)
    return Instruction(name, action, stream, (call,), **more)


def block(name, instructions, slots=(), phase="forward"):
    return InstructionBlock(name, phase, tuple(instructions), tuple(slots))


def run(code, instance="layer", micro_batch=0, **more):
    return BlockExecution(code, instance, micro_batch, f"F{micro_batch}", **more)


def program(codes, *parts, axes=None):
    """A Program of these blocks, with a pipeline stage for each list of executions."""
    mesh = Mesh.of(axes or {"pipeline": len(parts)})
    return Program(
        mesh, "pipeline", tuple(codes), tuple(StageProgram(Executions.of(part), ()) for part in parts)
    )
