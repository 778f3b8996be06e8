"""Operators on the processors of a host, as instructions: every device has a stream of its own there."""

from __future__ import annotations

from simcluster.cluster import HostPath
from simcluster.model import Node
from simcluster.program.isa import HOST, Call, Instruction, InstructionKind
from simcluster.work import Work


def host_instruction(node: Node, call: Call, works: tuple[Work, ...]) -> Instruction:
    """The instruction of an operator on the host: a flow over cores and memory that its devices share."""
    return Instruction(
        node.name,
        InstructionKind.COPY,
        HOST,
        (call,),
        works=works,
        operation=str(HostPath.WORK),
        group=(str(HostPath.WORK),),
        reason=node.why,
    )


def runs_on_host(instruction: Instruction) -> bool:
    """Whether an instruction is an operator on the host."""
    return instruction.operation == HostPath.WORK
