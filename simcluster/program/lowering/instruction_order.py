"""The order of the instructions of a code: what each waits for, and which buffers it is the last to read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import MovementKind
from simcluster.model import Block, Role
from simcluster.plan import ExecutionPolicy
from simcluster.program.isa import COMPUTE, Instruction, InstructionKind, Scope, Slot, record_producer
from simcluster.program.lowering.host_device_copies import kernels_awaited
from simcluster.program.lowering.lifetimes import ValueUses
from simcluster.program.lowering.phases import PER_MICRO_BATCH
from simcluster.program.lowering.segments import phase_of


@dataclass(frozen=True)
class InstructionOrder:
    """The instructions of one code of a block, over its slots."""

    block: Block
    name: str
    instructions: Sequence[Instruction]
    slots: Sequence[Slot]
    uses: ValueUses
    policy: ExecutionPolicy

    def ordered(self) -> tuple[Instruction, ...]:
        """The instructions with what each must wait for and which buffers each is the last to read."""
        maker: dict[int, int] = {}
        readers: dict[int, list[int]] = defaultdict(list)
        for index, instruction in enumerate(self.instructions):
            for slot in instruction.reads:
                readers[slot].append(index)
            for slot in instruction.writes:
                maker.setdefault(slot, index)
        drops = self._drops(readers, maker)
        barriers = [
            index
            for index, instruction in enumerate(self.instructions)
            if instruction.operation == str(MovementKind.BARRIER)
        ]
        instructions = []
        makers: defaultdict[int, dict[str, int]] = defaultdict(dict)
        for index, instruction in enumerate(self.instructions):
            after = {place for slot in instruction.reads for place in makers[slot].values()}
            for slot in instruction.writes:
                record_producer(makers[slot], instruction.stream, index, adds=slot in instruction.adds)
            after.update(self._gather_edges(index, readers))
            after.update(self._blocking_edges(index))
            after.update(kernels_awaited(index, self.instructions))
            if barriers:
                after.update(self._barrier_edges(index, barriers))
            instructions.append(
                replace(instruction, after=tuple(sorted(after)), last_uses=tuple(drops.get(index, ())))
            )
        return tuple(instructions)

    def _blocking_edges(self, index: int) -> Iterator[int]:
        """Where collectives of activations block: the kernel before one, and for a kernel all since it, but
        those that it goes in chunks with.
        """
        if not self.policy.blocking_layers or phase_of(self.name) not in PER_MICRO_BATCH:
            return
        if self._inside(index):
            return
        instruction = self.instructions[index]
        kernel, chunked = instruction.action is InstructionKind.COMPUTE, instruction.chunked
        if not kernel and not self._of_activations(instruction):
            return
        for other in range(index - 1, -1, -1):
            before = self.instructions[other]
            if before.action is InstructionKind.COMPUTE:
                if not kernel:
                    yield other
                return
            if kernel and not (chunked and chunked == before.chunked) and self._of_activations(before):
                yield other

    def _inside(self, index: int) -> bool:
        """Whether an instruction of a graph has one of that graph before it: no host comes between them."""
        piece = self.instructions[index].piece
        return bool(piece) and any(instruction.piece == piece for instruction in self.instructions[:index])

    def _barrier_edges(self, index: int, barriers: Sequence[int]) -> Iterator[int]:
        """A barrier waits for the last instruction of every stream; what follows waits for the barrier."""
        yield from [barrier for barrier in barriers if barrier < index][-1:]
        if index in barriers:
            last = {self.instructions[number].stream: number for number in range(index)}
            yield from last.values()

    def _of_activations(self, instruction: Instruction) -> bool:
        if instruction.action is InstructionKind.COPY:
            return False
        roles = {self.block.values[self.slots[slot].name].role for slot in instruction.reads}
        return roles <= {Role.ACTIVATION, Role.GRADIENT}

    def _drops(self, readers: Mapping[int, list[int]], maker: Mapping[int, int]) -> dict[int, list[int]]:
        """Instruction -> slots it drops: on every stream the last reader; the maker if nobody reads."""
        drops: dict[int, list[int]] = defaultdict(list)
        for slot, buffer in enumerate(self.slots):
            own = buffer.scope is Scope.LOCAL
            streams = None if own else self.uses.drops(buffer.name, self.name)
            last: dict[str, int] = {}
            for index in readers.get(slot, ()):
                stream = self.instructions[index].stream
                if streams is None or stream in streams:
                    last[stream] = index
            if not last and own:
                last[""] = maker[slot]
            for index in last.values():
                drops[index].append(slot)
        return drops

    def _ring_edge(self, index: int, readers: Mapping[int, list[int]]) -> Iterator[int]:
        """A block of ring attention is sent on when the kernel that reads it begins: two are held at once."""
        (slot,) = self.instructions[index].reads
        kernels = [i for i, instruction in enumerate(self.instructions) if instruction.stream == COMPUTE]
        users = [i for i in readers[slot] if i in kernels]
        before = [i for i in kernels if users and i < min(users[0], index)]
        if before:
            yield before[-1]

    def _kernels_ahead(self, index: int) -> list[int]:
        """The kernels before an instruction; of those that are the chunks of one the last."""
        kernels: dict[object, int] = {}
        for place, instruction in enumerate(self.instructions[:index]):
            if instruction.stream == COMPUTE and (instruction.works or not instruction.chunked):
                kernels[instruction.chunked or place] = place
        return sorted(kernels.values())

    def _gather_edges(self, index: int, readers: Mapping[int, list[int]]) -> Iterator[int]:
        """A gathered copy may not be made arbitrarily early: the kernel that far ahead of its reader.

        Of those that are issued before it: where several results are gathered before the first is read, the
        kernels in between belong to the others.
        """
        instruction = self.instructions[index]
        if instruction.operation == MovementKind.ROTATE:
            yield from self._ring_edge(index, readers)
        if instruction.operation != MovementKind.ALL_GATHER or phase_of(self.name) not in PER_MICRO_BATCH:
            return
        first = min((index for slot in instruction.writes for index in readers.get(slot, ())), default=0)
        ahead = self._kernels_ahead(first)
        prefetch = self.policy.graphs.prefetch if instruction.piece else self.policy.prefetch
        early = [i for i in ahead[: max(len(ahead) - prefetch, 0)] if i < index]
        if early:
            yield early[-1]
