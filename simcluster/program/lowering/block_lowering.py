"""Lowering of a block of the graph: the nodes of each phase become one block of instructions.

Layers and micro-batches are lowered once; instances only bind names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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
)
from simcluster.program.lowering.collective_copies import with_copies
from simcluster.program.lowering.fused_kernel import fused_work, recomputed_sums, with_traffic
from simcluster.program.lowering.graph_launch import awaited_by_host, dispatch_costs, named
from simcluster.program.lowering.host_device_copies import copy_instruction
from simcluster.program.lowering.host_operators import host_instruction
from simcluster.program.lowering.instruction_order import InstructionOrder
from simcluster.program.lowering.lifetimes import ValueUses
from simcluster.program.lowering.memory_categories import ValueCategories
from simcluster.program.lowering.phases import (
    FORWARD,
    PER_MICRO_BATCH,
    RECOMPUTE,
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
        phases = split_into_segments(phases, PER_MICRO_BATCH)
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
        policy = self.settings.policy
        once = policy.tokens_once
        self.exchanged = exchanged_choices(self.block.nodes, self.block.values) if once else {}
        kernels = kernel_nodes(self.nodes)
        self.internal = kernel_internal_values(self.nodes, kernels, self.uses)
        for nodes in kernels:
            self.instructions.append(self._instruction(nodes))
        phase = phase_of(self.name)
        if phase in PER_MICRO_BATCH and policy.copied_axes:
            self.instructions = with_copies(self.instructions, self.slots, policy.copied_axes)
        if phase in PER_MICRO_BATCH and policy.unit_copies:
            copies = policy.unit_copies
            self.instructions = with_unit_copies(self.instructions, self.slots, self.block, copies)
        self.instructions = dispatch_costs(
            self.instructions,
            policy.graphs.launch,
            self._num_operators,
            policy.host_work.group,
        )
        if phase in (FORWARD, RECOMPUTE):
            self.instructions = awaited_by_host(self.instructions, policy.host_work.waits)
        order = InstructionOrder(self.block, self.name, self.instructions, self.slots, self.uses, policy)
        instructions = tuple(with_storage(order.ordered(), self.slots, policy.storage, phase))
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
        within = self.internal | recomputed_sums(self.block, nodes)
        for node in nodes:
            if any(self.block.values[value].role is Role.VIEW for value in node.outputs):
                # A view moves nothing: it is there if what it shows is.
                there.update(node.outputs if there.issuperset(node.inputs) else ())
                continue
            again += [value for value in node.inputs if value in there]
            inside += [value for value in node.outputs if value in within]
            there.update(node.inputs, node.outputs)
        return total(again), total(inside)
