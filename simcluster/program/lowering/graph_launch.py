"""What the host dispatches: operators one by one, and subgraphs as a whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from simcluster.layout import MovementKind
from simcluster.model import Operator
from simcluster.program.isa import Call, Instruction, InstructionKind
from simcluster.work import Work

Setting = TypeVar("Setting")


def dispatch_costs(
    instructions: Sequence[Instruction],
    launch: float,
    operators: Callable[[Call], float] | None = None,
    group: float = 0.0,
) -> list[Instruction]:
    """The instructions of a code with the host time of each, in multiples of that for one operator.

    For the first kernel of a graph it launches the graph, which costs ``launch``; the others cost it nothing.
    Everything else is dispatched by itself, and costs as many as ``operators`` says of its call: of
    several in one kernel, the most. Products of groups cost ``group`` more for each group.
    """
    begun: set[str] = set()
    made = []
    for instruction in instructions:
        if instruction.piece:
            first = runs_kernels(instruction) and instruction.piece not in begun
            instruction = replace(instruction, dispatch_cost=launch if first else 0.0)
            begun.update([instruction.piece] if first else ())
        elif operators is not None and runs_kernels(instruction):
            cost = max(map(operators, instruction.calls))
            groups = sum(_groups(work) for work in instruction.works) if group else 0
            instruction = replace(instruction, dispatch_cost=cost + group * groups)
        made.append(instruction)
    return made


def _groups(work: Work) -> int:
    """How many products of groups of rows a kernel is; none of a single product."""
    sizes = dict(work.sizes)
    return sizes["b"] if sizes.get("grouped") else 0


EXCHANGE = "expert_exchange"
"""What the host waits for if it reads how many tokens came when they are there."""


def awaited_by_host(instructions: Sequence[Instruction], names: Collection[str]) -> list[Instruction]:
    """The instructions; the host waits for kernels of operators of these kinds or families, and with
    ``EXCHANGE`` for tokens that ranks exchange before the products of experts.
    """
    table = dict.fromkeys(names, True)
    made: list[Instruction] = []
    sent = False
    for instruction in instructions:
        waits = False
        if table and runs_kernels(instruction):
            waits = any(named(call.operator, table, False) for call in instruction.calls)
            sent = not any(map(_groups, instruction.works)) and (sent or _sends_tokens(instruction))
        elif sent and EXCHANGE in table:
            waits = instruction.operation.startswith(MovementKind.ALL_TO_ALL)
        made.append(replace(instruction, host_waits=True) if waits else instruction)
    return made


def _sends_tokens(instruction: Instruction) -> bool:
    """Whether a kernel puts tokens in the slots of their experts."""
    return any(named(call.operator, {"dispatch": True}, False) for call in instruction.calls)


def named(operator: object, table: Mapping[str, Setting], otherwise: Setting) -> Setting:
    """What a table has for an operator, by the first of its names there: its kind or else its family."""
    if not isinstance(operator, Operator):
        return otherwise
    return next((table[name] for name in operator.names if name in table), otherwise)


def runs_kernels(instruction: Instruction) -> bool:
    """Whether an instruction runs kernels; a view of another buffer has none."""
    return instruction.action is InstructionKind.COMPUTE and bool(instruction.works)
