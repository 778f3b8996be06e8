"""Prefetch of offloaded activations: they return a given number of executions before their backward.

A fetch stands in program order before the execution that is so many forwards or backwards ahead of its own
backward, but behind its own forward. It begins when the one before that is over, copies included; so what
has come back is that of few blocks. A forward whose copies leave the device waits in the same way: for the
one that stands so many before it to have its own away.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from simcluster.model import MemoryPlace, Relocation
from simcluster.program.isa import BlockExecution, Executions, InstructionBlock
from simcluster.program.lowering import BACKWARD, FORWARD, WEIGHTS

_COMPUTED = (FORWARD, BACKWARD, WEIGHTS)


def add_prefetches(
    executions: Executions, codes: Sequence[InstructionBlock], fetches: Mapping[str, int]
) -> Executions:
    """The executions of a part with those that copy offloaded activations back to the device.

    ``fetches`` are the codes that do so, by instance.
    """
    if not fetches:
        return executions
    ahead = {name: _ahead(codes[code]) for name, code in fetches.items()}
    before: defaultdict[int, list[BlockExecution]] = defaultdict(list)
    waits: dict[int, int] = {}
    turns: list[int] = []
    forward: dict[tuple[str, int], int] = {}
    begun: set[tuple[str, int]] = set()
    for place, execution in enumerate(executions.objects):
        code = codes[execution.code]
        if code.phase not in _COMPUTED:
            continue
        key = execution.instance, execution.micro_batch
        turns.append(place)
        number = len(turns) - 1
        depth = ahead.get(execution.instance, 0)
        if code.phase == FORWARD:
            forward[key] = number
            if _leaves(code) and number > depth:
                waits[place] = turns[number - depth - 1]
        elif execution.instance in fetches and key not in begun:
            begun.add(key)
            at = max(number - depth, forward[key] + 1)
            after = ((turns[at - 1], 0),) if at else ()
            fetch = BlockExecution(
                fetches[execution.instance],
                execution.instance,
                execution.micro_batch,
                execution.action,
                after=after,
            )
            before[turns[at]].append(fetch)
    return Executions.of(_inserted(executions.objects, before, waits))


def _inserted(
    executions: Sequence[BlockExecution],
    before: Mapping[int, Sequence[BlockExecution]],
    waits: Mapping[int, int],
) -> list[BlockExecution]:
    """The executions with others before some of them; ``waits`` are further ones they follow, by place."""
    place: list[int] = []
    shift = 0
    for index in range(len(executions)):
        shift += len(before.get(index, ()))
        place.append(index + shift)

    def moved(execution: BlockExecution, *more: tuple[int, int]) -> BlockExecution:
        return replace(
            execution, after=tuple((place[other], ago) for other, ago in (*execution.after, *more))
        )

    made: list[BlockExecution] = []
    for index, execution in enumerate(executions):
        made += [moved(fetch) for fetch in before.get(index, ())]
        made.append(moved(execution, (waits[index], 0)) if index in waits else moved(execution))
    return made


def _ahead(code: InstructionBlock) -> int:
    """How many executions ahead a fetch wants to be."""
    operators = (call.operator for instruction in code.instructions for call in instruction.calls)
    return max(operator.ahead for operator in operators if isinstance(operator, Relocation))


def _leaves(code: InstructionBlock) -> bool:
    """Whether something of a code leaves the device."""
    return any(
        isinstance(call.operator, Relocation) and call.operator.source is MemoryPlace.DEVICE
        for instruction in code.instructions
        for call in instruction.calls
    )
