"""The memory of a block's buffers: which stay in a kernel, which share a tensor, and scratch memory.

How much of it a framework spares or wastes is a matter of its profile (``FrameworkMemorySpec``).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

from simcluster.layout import Mesh
from simcluster.model import Block, JoinChunks, Node, Operator, Phase, SplitChunks, TensorType, Value
from simcluster.plan import FrameworkMemorySpec, kernel_nodes, part_type
from simcluster.program.isa import Instruction, InstructionKind, Scope, Slot
from simcluster.program.lowering.lifetimes import ValueUses


def local_type(value: Value, mesh: Mesh) -> TensorType:
    """The type of the part of a value that one rank holds."""
    assert value.layout is not None
    return part_type(value.type, value.layout, mesh)


def kernel_internal_values(
    nodes: Sequence[Node], kernels: Sequence[tuple[Node, ...]], uses: ValueUses
) -> set[str]:
    """Values that never leave the kernel that makes them, and so never reach memory."""
    return {
        value
        for kernel in kernels
        for node in kernel[:-1]
        for value in node.outputs
        if uses.scope(value) is Scope.LOCAL and _readers(value, nodes) == _readers(value, kernel)
    }


def _readers(value: str, nodes: Sequence[Node]) -> int:
    return sum(node.inputs.count(value) for node in nodes)


def whole_sizes(
    block: Block, forward: Sequence[Node], mesh: Mesh, storage: FrameworkMemorySpec, uses: ValueUses
) -> dict[str, int]:
    """The bytes of values whose buffers are one tensor, where they are not their own.

    Of the results of one kernel, the first that is kept for the backward holds those that are not. What other
    blocks read, as slices of sequences the keys and values of earlier ones, is a tensor of its own.
    """
    whole_of: dict[str, int] = {}
    for made in _made_together(forward, storage, uses):
        made = [value for value in made if not uses.border(value)]
        kept = [value for value in made if uses.scope(value) is Scope.MICRO_BATCH]
        if not kept:
            continue
        sizes = {value: local_type(block.values[value], mesh).num_bytes for value in made}
        short = [value for value in made if uses.scope(value) is Scope.LOCAL]
        whole_of |= dict.fromkeys(short, 0)
        whole_of[kept[0]] = sizes[kept[0]] + sum(sizes[value] for value in short)
    return whole_of


def chunk_views(block: Block, uses: ValueUses) -> dict[str, int]:
    """Chunks that are views of a larger tensor that is held longer, the one that they are cut from or joined
    into: value -> 0, the bytes that they need themselves.
    """
    last = {value: place for place, node in enumerate(block.nodes) for value in node.inputs}
    views: dict[str, int] = {}
    for place, node in enumerate(block.nodes):
        if isinstance(node.operator, SplitChunks):
            (value,) = node.inputs
            if last[value] > place or uses.leaves(value):
                views |= dict.fromkeys(node.outputs, 0)
        elif isinstance(node.operator, JoinChunks):
            views |= {value: 0 for value in node.inputs if last[value] > place}
    return views


def _made_together(
    forward: Sequence[Node], storage: FrameworkMemorySpec, uses: ValueUses
) -> Iterator[list[str]]:
    """What kernels of several results make, of families whose results are one tensor; of those that go in
    chunks, what these are put together to.
    """
    kernels = kernel_nodes(forward)
    inside = kernel_internal_values(forward, kernels, uses)
    whole = {node.inputs[0]: node.outputs[0] for node in forward if isinstance(node.operator, JoinChunks)}
    for kernel in kernels:
        first = kernel[0]
        if not isinstance(first.operator, Operator) or first.operator.family not in storage.whole:
            continue
        made = [value for node in kernel for value in node.outputs if value not in inside]
        if first.chunked:
            made = [whole[value] for value in made if value in whole]
        if len(first.outputs) > 1:
            yield made


def with_storage(
    instructions: Sequence[Instruction], slots: Sequence[Slot], storage: FrameworkMemorySpec, phase: str
) -> Iterator[Instruction]:
    """The instructions with their scratch memory, and whether they write over what they read."""
    copies = [instruction for instruction in instructions if instruction.action is InstructionKind.COPY]
    brought = {slot for copy in copies for slot in copy.writes}
    away = {slot for copy in copies for slot in copy.reads}
    for instruction in instructions:
        if instruction.calls and isinstance(instruction.calls[0].operator, SplitChunks | JoinChunks):
            # What it makes lies where what it reads does.
            yield replace(instruction, in_place=True)
            continue
        operators = [
            (call.operator, call.inputs) for call in instruction.calls if isinstance(call.operator, Operator)
        ]
        families = [operator.family for operator, _ in operators]
        if instruction.action is not InstructionKind.COMPUTE or not families:
            yield instruction
            continue
        sizes = [slots[slot].type.num_bytes for slot in (*instruction.reads, *instruction.writes)]
        factor = max((storage.scratch.get(family, 0.0) for family in families), default=0.0)
        over = phase == Phase.BACKWARD and any(family in storage.in_place for family in families)
        own = max(operator.scratch([slots[slot].type for slot in read]) for operator, read in operators)
        scratch = max(own, round(factor * max(sizes, default=0)))
        in_place = (
            instruction.in_place
            or (over and _fits(instruction, slots))
            or _replaces(instruction, slots, brought, away)
        )
        same = (scratch, in_place) == (instruction.scratch, instruction.in_place)
        yield instruction if same else replace(instruction, scratch=scratch, in_place=in_place)


def _fits(instruction: Instruction, slots: Sequence[Slot]) -> bool:
    """Whether what an instruction writes has room in what it is the last to read."""
    room = max((slots[slot].num_bytes for slot in instruction.last_uses), default=0)
    return sum(slots[slot].num_bytes for slot in instruction.writes) <= room


def _replaces(
    instruction: Instruction, slots: Sequence[Slot], brought: Container[int], away: Container[int]
) -> bool:
    """Whether what an instruction makes, to be brought back, takes the place of what was brought for it."""
    going = any(slot in away and slots[slot].scope is Scope.LOCAL for slot in instruction.writes)
    return going and any(slot in brought for slot in instruction.last_uses)
