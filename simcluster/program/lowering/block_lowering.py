"""Lowering of a block of the graph: the nodes of each phase become one block of instructions.

Layers and micro-batches are lowered once; instances only bind names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Mesh, Movement, MovementKind
from simcluster.model import Block, MemoryPlace, Node, Operator, Relocation, Role
from simcluster.plan import (
    FREE_EXECUTION,
    ExecutionPolicy,
    collective_bytes,
    expert_parts,
    kernel_nodes,
)
from simcluster.program.isa import (
    COMPUTE,
    Call,
    Instruction,
    InstructionBlock,
    InstructionKind,
    Scope,
    Slot,
    record_producer,
)
from simcluster.program.lowering.collective_copies import with_copies
from simcluster.program.lowering.fused_kernel import fused_work, sums_made_again, with_traffic
from simcluster.program.lowering.graph_launch import awaited_by_host, dispatch_costs, named
from simcluster.program.lowering.host_device_copies import copy_instruction, kernels_awaited
from simcluster.program.lowering.host_operators import host_instruction
from simcluster.program.lowering.lifetimes import ValueUses
from simcluster.program.lowering.memory_categories import ValueCategories
from simcluster.program.lowering.phases import (
    BACKWARD,
    FORWARD,
    RECOMPUTE,
    WEIGHTS,
    phases_of,
    stream_of,
)
from simcluster.program.lowering.segments import phase_of, split_into_segments
from simcluster.program.lowering.storage import (
    chunk_views,
    kernel_internal_values,
    local_type,
    whole_sizes,
    with_storage,
)
from simcluster.program.lowering.token_exchange import exchanged_choices, share_sent_once, with_sorting_pass
from simcluster.program.lowering.unit_copies import with_unit_copies
from simcluster.work import MATRIX_KERNELS, DType, Kernel, Work

_COMPUTED = (FORWARD, RECOMPUTE, BACKWARD, WEIGHTS)
"""What is done for every micro-batch, in order of the kernels."""

_ADDED = (Role.ACCUMULATOR, Role.SUM)


@dataclass(frozen=True, slots=True)
class Lowering:
    """What lowering needs to know besides the block.

    An all-gather does not start before the ``policy.prefetch + 1``-th kernel ahead of its first reader has
    ended. Where layers block, kernels and collectives of activations take turns in program order, but inside
    of functions that are graphs. ``tf32``: matrix kernels on fp32 operands run at the rate of tf32. With
    ``segments`` codes end where a kernel waits for a collective, so that those of overlapped actions may
    alternate.
    """

    mesh: Mesh
    policy: ExecutionPolicy = FREE_EXECUTION
    tf32: bool = False
    segments: bool = False
    without: Collection[str] = ()
    """Phases that nobody asks for."""


def lower_block(
    block: Block, settings: Lowering, given: Mapping[str, Scope] | None = None
) -> dict[str, InstructionBlock]:
    """The codes of a block by name; phases in which it does nothing are absent.

    ``given`` says how long values live that other blocks read.
    """
    phases = phases_of(block)
    # Where collectives block, no kernel runs beside one, and segments would lose what waits for what.
    if settings.segments and not settings.policy.blocking_layers:
        phases = split_into_segments(phases, _COMPUTED)
    uses = ValueUses.of(block, phases, given or {}, stream_of)
    forward = [node for name, nodes in phases.items() if phase_of(name) == FORWARD for node in nodes]
    categories = ValueCategories.of(block, uses)
    sizes = whole_sizes(block, forward, settings.mesh, settings.policy.storage, uses) | chunk_views(
        block, uses
    )
    return {
        name: _CodeWriter(block, name, nodes, settings, uses, sizes, categories).write()
        for name, nodes in phases.items()
        if nodes and name not in settings.without
    }


def buffer_scopes(block: Block) -> dict[str, Scope]:
    """Value -> the lifetime of its buffer, for all values of a block."""
    uses = ValueUses.of(block, phases_of(block), {}, stream_of)
    return {value: uses.scope(value) for value in block.values}


@dataclass
class _CodeWriter:
    block: Block
    name: str
    nodes: Sequence[Node]
    settings: Lowering
    uses: ValueUses
    sizes: Mapping[str, int]
    categories: ValueCategories
    slots: list[Slot] = field(default_factory=list)
    index: dict[str, int] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)

    def write(self) -> InstructionBlock:
        once = self.settings.policy.tokens_once
        self.exchanged = exchanged_choices(self.block.nodes, self.block.values) if once else {}
        kernels = kernel_nodes(self.nodes)
        self.internal = kernel_internal_values(self.nodes, kernels, self.uses)
        for nodes in kernels:
            self.instructions.append(self._instruction(nodes))
        phase = phase_of(self.name)
        if phase in _COMPUTED and self.settings.policy.copied_axes:
            axes = self.settings.policy.copied_axes
            self.instructions = with_copies(self.instructions, self.slots, axes)
        if phase in _COMPUTED and self.settings.policy.unit_copies:
            copies = self.settings.policy.unit_copies
            self.instructions = with_unit_copies(self.instructions, self.slots, self.block, copies)
        self.instructions = dispatch_costs(
            self.instructions,
            self.settings.policy.graphs.launch,
            self._num_operators,
            self.settings.policy.host_work.group,
        )
        if phase in (FORWARD, RECOMPUTE):
            self.instructions = awaited_by_host(self.instructions, self.settings.policy.host_work.waits)
        instructions = tuple(
            with_storage(self._with_edges(), self.slots, self.settings.policy.storage, phase)
        )
        return InstructionBlock(f"{self.block.name}.{self.name}", phase, instructions, tuple(self.slots))

    # -- slots ------------------------------------------------------------------------------------------

    def _slot(self, value: str) -> int:
        if value not in self.index:
            self.index[value] = len(self.slots)
            self.slots.append(self._made_slot(value))
        return self.index[value]

    def _made_slot(self, value: str) -> Slot:
        kind = self.block.values[value]
        local = local_type(kind, self.settings.mesh)
        scope = self.uses.scope(value)
        size = self.sizes.get(value, local.num_bytes)
        size = 0 if kind.role is Role.VIEW or value in self.internal else size
        assert kind.layout is not None
        feed = kind.role is Role.FEED
        return Slot(
            value,
            scope,
            local,
            self.categories.category(value),
            size,
            kind.type,
            kind.layout,
            feed,
            kind.num_ids,
            kind.part,
            kind.place,
        )

    # -- instructions -----------------------------------------------------------------------------------

    def _instruction(self, nodes: tuple[Node, ...]) -> Instruction:
        first = nodes[0]
        calls = tuple(self._call(node) for node in nodes)
        if isinstance(first.operator, Movement) and first.operator.is_collective:
            return self._collective(first, first.operator, calls)
        if isinstance(first.operator, Relocation):
            return copy_instruction(first, first.operator, calls[0], self.slots)
        works = fused_work([self._works(node) for node in nodes], self._internal_bytes(nodes))
        if first.place is MemoryPlace.HOST:
            return host_instruction(first, calls[0], works)
        name = first.kernel or first.name
        return Instruction(
            name,
            InstructionKind.COMPUTE,
            COMPUTE,
            calls,
            works=works,
            reason=first.why,
            piece=first.piece,
            chunked=first.chunked,
        )

    def _call(self, node: Node) -> Call:
        adds = frozenset(index for index, value in enumerate(node.outputs) if self._added(value))
        return Call(
            node.name,
            node.operator,
            tuple(self._slot(value) for value in node.inputs),
            tuple(self._slot(value) for value in node.outputs),
            node.strategy,
            node.masked,
            adds,
        )

    def _added(self, value: str) -> bool:
        """Whether what is written is added to what is there; disks do not add."""
        kind = self.block.values[value]
        return kind.role in _ADDED and kind.place is not MemoryPlace.DISK

    def _collective(self, node: Node, movement: Movement, calls: tuple[Call, ...]) -> Instruction:
        return Instruction(
            node.name,
            InstructionKind.COLLECTIVE,
            stream_of(self.name, node),
            calls,
            operation=str(movement.kind),
            group=movement.axes,
            num_bytes=sum(map(partial(self._moved, movement), calls)),
            in_place=movement.kind is MovementKind.ALL_REDUCE,
            reason=node.why,
            piece=node.piece,
            parts=expert_parts(movement, self.settings.mesh),
            chunked=node.chunked,
        )

    def _moved(self, movement: Movement, call: Call) -> int:
        """The bytes of one tensor's movement; some have none on one side."""
        before, after = (
            next((self.slots[slot].type for slot in slots), None) for slots in (call.inputs, call.outputs)
        )
        moved = collective_bytes(movement, before, after, self.settings.mesh)
        if movement.kind is MovementKind.ALL_TO_ALL:
            for slot in (*call.inputs, *call.outputs):
                if (choices := self.exchanged.get(self.slots[slot].name)) is not None:
                    return round(moved * share_sent_once(*choices, self._receivers(movement.axes)))
        return moved

    def _receivers(self, axes: tuple[str, ...]) -> int:
        """To how many a token may go that is sent once to each: the ranks of an exchange, or, where these are
        in several pods or hosts, those, which hand it on over links that are much faster than the network.
        """
        pods = self.settings.policy.exchange_pods.get(axes, 1)
        return pods if pods > 1 else self.settings.mesh.product(axes)

    def _works(self, node: Node) -> tuple[Work, ...]:
        inputs = [self.slots[self._slot(value)].type for value in node.inputs]
        outputs = [self.slots[self._slot(value)].type for value in node.outputs]
        if isinstance(node.operator, Operator):
            adds = any(self.block.values[value].role in _ADDED for value in node.outputs)
            made = node.operator.work(inputs, outputs, accumulate=adds)
            works: Iterable[Work] = map(self._rated, made)
            policy = self.settings.policy
            unfused = policy.fused_softmax.leaves(node.operator, inputs)
            traffic = policy.fused_softmax.traffic if unfused else policy.traffic
            if policy.tokens_sorted and named(node.operator, traffic, None) is None:
                works = with_sorting_pass(works, node.operator, inputs, outputs)
            return tuple(with_traffic(works, node.operator, traffic))
        if self.block.values[node.outputs[0]].role is Role.VIEW:
            return ()
        moved = outputs[0].num_bytes
        return (Work(Kernel.COPY, outputs[0].dtype, flops=0, bytes_read=moved, bytes_written=moved),)

    def _num_operators(self, call: Call) -> float:
        """How many operators' time a call takes the host."""
        policy = self.settings.policy
        unfused = policy.fused_softmax.leaves(call.operator, [self.slots[slot].type for slot in call.inputs])
        return named(call.operator, (policy.fused_softmax if unfused else policy.host_work).calls, 1.0)

    def _rated(self, work: Work) -> Work:
        """The work at the rate of the format in which matrix units multiply, by the kernel there is."""
        if work.kernel in self.settings.policy.releases:
            work = replace(work, sizes=(*work.sizes, ("release", self.settings.policy.releases[work.kernel])))
        if self.settings.tf32 and work.kernel in MATRIX_KERNELS and work.dtype is DType.FP32:
            return replace(work, dtype=DType.TF32)
        return work

    def _internal_bytes(self, nodes: Sequence[Node]) -> tuple[int, int]:
        """Bytes that operators of a kernel read and write, and the kernel does not.

        It reads nothing that it makes, nor anything a second time for another operator; it writes what others
        read.
        """

        def total(values: Sequence[str]) -> int:
            return sum(self.slots[self.index[value]].type.num_bytes for value in values)

        there: set[str] = set()
        again: list[str] = []
        inside: list[str] = []
        within = self.internal | sums_made_again(self.block, nodes)
        for node in nodes:
            if any(self.block.values[value].role is Role.VIEW for value in node.outputs):
                # A view moves nothing: it is there if what it shows is.
                there.update(node.outputs if there.issuperset(node.inputs) else ())
                continue
            again += [value for value in node.inputs if value in there]
            inside += [value for value in node.outputs if value in within]
            there.update(node.inputs, node.outputs)
        return total(again), total(inside)

    # -- order ------------------------------------------------------------------------------------------

    def _with_edges(self) -> tuple[Instruction, ...]:
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
            after.update(self._prefetch_edge(index, readers))
            after.update(self._turn(index))
            after.update(kernels_awaited(index, self.instructions))
            if barriers:
                after.update(self._fence(index, barriers))
            instructions.append(
                replace(instruction, after=tuple(sorted(after)), last_uses=tuple(drops.get(index, ())))
            )
        return tuple(instructions)

    def _turn(self, index: int) -> Iterator[int]:
        """Where collectives of activations block: the kernel before one, and for a kernel all since it, but
        those that it goes in chunks with.
        """
        if not self.settings.policy.blocking_layers or phase_of(self.name) not in _COMPUTED:
            return
        if self._inside(index):
            return
        kernel, chunked = (
            self.instructions[index].action is InstructionKind.COMPUTE,
            self.instructions[index].chunked,
        )
        if not kernel and not self._of_activations(self.instructions[index]):
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

    def _fence(self, index: int, barriers: Sequence[int]) -> Iterator[int]:
        """Whom a barrier waits for, the last of every stream before it; and the barrier before all others."""
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

    def _turn_edge(self, index: int, readers: Mapping[int, list[int]]) -> Iterator[int]:
        """What goes around leaves when the kernel that reads it begins: two of its kind are held at once."""
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

    def _prefetch_edge(self, index: int, readers: Mapping[int, list[int]]) -> Iterator[int]:
        """A gathered copy may not be made arbitrarily early: the kernel that far ahead of its reader.

        Of those that are issued before it: where several results are gathered before the first is read, the
        kernels in between belong to the others.
        """
        instruction = self.instructions[index]
        if instruction.operation == MovementKind.ROTATE:
            yield from self._turn_edge(index, readers)
        if instruction.operation != MovementKind.ALL_GATHER or phase_of(self.name) not in _COMPUTED:
            return
        first = min((index for slot in instruction.writes for index in readers.get(slot, ())), default=0)
        ahead = self._kernels_ahead(first)
        prefetch = (
            self.settings.policy.graphs.prefetch if instruction.piece else self.settings.policy.prefetch
        )
        early = [i for i in ahead[: max(len(ahead) - prefetch, 0)] if i < index]
        if early:
            yield early[-1]
