"""Sums that lie on disks: read back for every term but the first of a step, once that term is made.

The term is added in the memory of the host. Were the sum read earlier, the host would hold sums of many
blocks at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from simcluster.cluster import HostPath
from simcluster.program.isa import BlockExecution, Executions, InstructionBlock
from simcluster.program.lowering import SCATTER, CodeTable


def add_disk_sums(executions: Executions, codes: CodeTable, buffer: Callable[[str, str], str]) -> Executions:
    """The executions of a part, with those that add to sums on disks after the kernels that make the terms.

    Those that put the first term there read no sum: that would be the one of the step before. ``buffer`` is
    what a value of an instance is called among all of the part.
    """
    read_back = {
        number: own_sums for number, code in enumerate(codes.codes) if (own_sums := _read_back(code))
    }
    if not read_back:
        return executions
    begun: set[str] = set()
    shorter: dict[tuple[int, frozenset[int]], int] = {}
    made: list[BlockExecution] = []
    maker = 0
    for place, execution in enumerate(executions.objects):
        code = codes.codes[execution.code]
        sums = {index: buffer(execution.instance, name) for index, name in read_back.get(execution.code, ())}
        made_first = {name: index for index, name in reversed(sums.items()) if name not in begun}
        first = frozenset(made_first.values())
        begun.update(sums.values())
        if sums.keys() - first:
            execution = replace(execution, after=(*execution.after, (maker, 0)))
        if first:
            key = execution.code, first
            if key not in shorter:
                shorter[key] = codes.add(_without(code, first))
            execution = replace(execution, code=shorter[key])
        if code.phase != SCATTER:
            maker = place
        made.append(execution)
    return Executions.of(made)


def _read_back(code: InstructionBlock) -> list[tuple[int, str]]:
    """The instructions that read a sum from a disk to add to it, each with the sum."""
    return [
        (index, code.slots[instruction.reads[0]].name)
        for index, instruction in enumerate(code.instructions)
        if instruction.operation == HostPath.FROM_DISKS and instruction.adds
    ]


def _without(code: InstructionBlock, left_out: frozenset[int]) -> InstructionBlock:
    """The code without some instructions."""
    kept = [index for index in range(len(code.instructions)) if index not in left_out]
    place = {index: number for number, index in enumerate(kept)}
    instructions = tuple(
        replace(instruction, after=tuple(place[other] for other in instruction.after if other in place))
        for instruction in (code.instructions[index] for index in kept)
    )
    return replace(code, name=f"{code.name}.first", instructions=instructions)
