"""Operators on the processors of a host, as instructions: every device has a stream of its own there."""

from __future__ import annotations

from simcluster.cluster import Way
from simcluster.model import Node
from simcluster.program.isa import HOST, Action, Call, Instruction
from simcluster.work import Work


def on_processors(node: Node, call: Call, works: tuple[Work, ...]) -> Instruction:
    """The instruction of an operator on the host: a flow over cores and memory that its devices share."""
    return Instruction(
        node.name,
        Action.COPY,
        HOST,
        (call,),
        works=works,
        operation=str(Way.WORK),
        group=(str(Way.WORK),),
        why=node.why,
    )


def runs_on_host(each: Instruction) -> bool:
    """Whether an instruction is an operator on the host."""
    return each.operation == Way.WORK
