"""A Program as routing makes it: ranks hold, send and compute as many rows as their experts get.

What is lowered takes every expert for equally popular. Where the scenario says otherwise, ranks whose experts
get unequally many tokens run parts of their own: codes with other sizes, and all-to-alls with parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from simcluster.collectives import UnequalPartsByGroup
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.layout import Layout, Movement, MovementKind
from simcluster.model import Operator, TensorType
from simcluster.number_arrays import Ints
from simcluster.plan import ROUTING_PATH, ExpertRouting, collective_bytes, expert_counts
from simcluster.program.isa import (
    BlockExecution,
    Call,
    Executions,
    Instruction,
    InstructionBlock,
    InstructionKind,
    Program,
    Slot,
)
from simcluster.program.lowering import ORDERED, fused_work
from simcluster.program.routing.dynamic_shapes import (
    Extent,
    RaggedDims,
    RaggedSlots,
    exchanged_elements,
    filled_type,
)
from simcluster.work import Kernel, Work

Table = tuple[str, int]

MOST_CODES = 2**17
"""Codes of sizes of their own that are written at most; each takes some milliseconds to price."""


def apply_routing(program: Program, routing: ExpertRouting, layers: Sequence[str]) -> Program:
    """The Program with the sizes that ``routing`` gives; itself where that changes nothing.

    ``layers`` are the instances of the model in order. What is gathered or reduced over ranks that hold
    unequally much is padded to the most that any of them holds. PlanError where routing is not supported.
    """
    ragged = _Ragged.of(program)
    changed = {
        name for name, slots in ragged.slots.items() if not routing.uniform or slots.demand.most is not None
    }
    if not changed:
        if not routing.uniform and not ragged.slots:
            raise PlanError(
                "this routing changes nothing: no layer has experts whose number of tokens varies",
                path=ROUTING_PATH,
                hint="use a mixture of experts without a padded capacity, or leave out training.routing",
            )
        return program
    if program.num_variants > 1 or program.assigned:
        raise PlanError("not supported yet with unequal shares of the batch", path=ROUTING_PATH)
    return _Router(program, routing, [name for name in layers if name in changed], ragged).run()


def routed_slots(program: Program) -> dict[str, frozenset[str]]:
    """By instance the slots whose sizes depend on how many tokens experts get."""
    return {instance: frozenset(slots.dims) for instance, slots in _Ragged.of(program).slots.items()}


def serves_all_tokens(program: Program) -> bool:
    """Whether experts together get all tokens that come, however unequally: none drops some."""
    return all(slots.demand.most is None for slots in _Ragged.of(program).slots.values())


@dataclass(frozen=True)
class _Ragged:
    """What is ragged in a Program: by instance its slots, and by code those that it has."""

    slots: Mapping[str, RaggedSlots]

    @classmethod
    def of(cls, program: Program) -> _Ragged:
        seen: dict[str, dict[int, None]] = {}
        for part in program.parts:
            for code, instance in part.columns.pairs:
                seen.setdefault(instance, {})[code] = None
        known: dict[tuple[int, ...], RaggedSlots | None] = {}
        by_instance = {}
        for instance, codes in seen.items():
            key = tuple(codes)
            if key not in known:
                known[key] = RaggedSlots.of([program.codes[code] for code in key])
            slots = known[key]
            if slots is not None:
                by_instance[instance] = slots
        return cls(by_instance)


@dataclass
class _Router:
    program: Program
    routing: ExpertRouting
    layers: Sequence[str]
    ragged: _Ragged
    extents: dict[tuple[TensorType, Layout], Extent] = field(default_factory=dict)
    tables: dict[Table, Ints] = field(default_factory=dict)
    rows: dict[tuple[TensorType, Layout, RaggedDims, Table], Ints] = field(default_factory=dict)
    codes: list[InstructionBlock] = field(default_factory=list)
    numbers: dict[tuple[object, ...], int] = field(default_factory=dict)
    exchanges: dict[tuple[object, ...], tuple[UnequalPartsByGroup, int]] = field(default_factory=dict)
    known: dict[int, list[tuple[Slot, tuple[str, ...]]]] = field(default_factory=dict)

    def run(self) -> Program:
        program, mesh = self.program, self.program.mesh
        variants = self._variants()
        count = int(variants.max()) + 1
        wanted = len(self.tables) * count
        if wanted > MOST_CODES:
            raise PlanError(
                f"{len(self.tables):,} tables of tokens for {count:,} different ranks are too many",
                path=ROUTING_PATH,
                hint="draw one table a layer (drawn: layer), or fewer ranks",
            )
        parts = []
        stages = program.part_of_rank
        for stage, part in enumerate(program.parts):
            ranks = np.flatnonzero(stages == stage)
            for variant in range(count):
                rank = int(ranks[np.flatnonzero(variants[ranks] == variant)[0]])
                executions = Executions.of(self._execution(run, rank, variant) for run in part.executions)
                parts.append(replace(part, columns=executions))
        assigned = tuple((stages * count + variants).tolist())
        return Program(
            mesh,
            program.stage_axis,
            tuple(self.codes),
            tuple(parts),
            variants=tuple(range(count)),
            workspaces=program.workspaces,
            workspace=program.workspace,
            assigned=assigned,
        )

    # -- tables and ranks -------------------------------------------------------------------------------

    def _table(self, layer: str, micro_batch: int) -> Table:
        """The table of a layer and micro-batch, drawn if it is new."""
        key = self.routing.table(layer, micro_batch)
        if key not in self.tables:
            demand = self.ragged.slots[layer].demand
            place = self.layers.index(layer)
            shares = self.routing.popularity(layer, place, micro_batch, demand.groups)
            self.tables[key] = expert_counts(shares, demand.rows, demand.once, demand.most)
        return key

    def _rows(self, slot: Slot, at: RaggedDims, table: Table) -> Ints:
        """By rank what a slot holds: rows times places."""
        key = slot.whole, slot.layout, at, table
        if key not in self.rows:
            self.rows[key] = self._extent(slot).rows(at, self.tables[table])
        return self.rows[key]

    def most(self, slot: Slot, at: RaggedDims, table: Table, axes: tuple[str, ...]) -> Ints:
        """By rank the most that anybody it meets over some axes holds: all of them send as much as that."""
        groups, rows = self.program.mesh.groups(axes), self._rows(slot, at, table)
        largest = rows.copy()
        largest[groups] = rows[groups].max(axis=1, keepdims=True)
        return largest

    def _extent(self, slot: Slot) -> Extent:
        key = slot.whole, slot.layout
        if key not in self.extents:
            self.extents[key] = Extent.of(*key, self.program.mesh)
        return self.extents[key]

    def _variants(self) -> Ints:
        """A number per rank: equal for those that hold equally many rows of everything."""
        columns: dict[tuple[object, ...], Ints] = {}
        for part in self.program.parts:
            for run in part.executions:
                if run.instance not in self.layers:
                    continue
                table, slots = self._table(run.instance, run.micro_batch), self.ragged.slots[run.instance]
                for slot, axes in self._ragged_of(run.code, slots):
                    at = slots.dims[slot.name]
                    key = slot.whole, slot.layout, at, table, axes
                    if key not in columns:
                        columns[key] = self.most(slot, at, table, axes)
        _, variants = np.unique(np.stack(list(columns.values())), axis=1, return_inverse=True)
        return np.asarray(variants.reshape(-1), dtype=np.int64)

    def _ragged_of(self, code: int, slots: RaggedSlots) -> list[tuple[Slot, tuple[str, ...]]]:
        """The ragged slots of a code, and again with the axes over which they are gathered or reduced."""
        if code not in self.known:
            block = self.program.codes[code]
            alone = [(slot, ()) for slot in block.slots if slot.name in slots.dims]
            met = [
                (block.slots[slot], instruction.group)
                for instruction in block.instructions
                if instruction.action is InstructionKind.COLLECTIVE
                and instruction.operation != MovementKind.ALL_TO_ALL
                for slot in (*instruction.reads, *instruction.writes)
                if block.slots[slot].name in slots.dims
            ]
            self.known[code] = [*alone, *met]
        return self.known[code]

    # -- codes ------------------------------------------------------------------------------------------

    def _execution(self, run: BlockExecution, rank: int, variant: int) -> BlockExecution:
        code = self.program.codes[run.code]
        if run.instance in self.layers and self._ragged_of(run.code, self.ragged.slots[run.instance]):
            slots = self.ragged.slots[run.instance]
            table = self._table(run.instance, run.micro_batch)
            key: tuple[object, ...] = (run.code, table, variant)
            if key not in self.numbers:
                sized = _Sized(self, code, slots, table, rank, variant)
                self._add(key, sized.code())
        else:
            key = (run.code,)
            if key not in self.numbers:
                self._add(key, code)
        return replace(run, code=self.numbers[key])

    def _add(self, key: tuple[object, ...], code: InstructionBlock) -> None:
        self.numbers[key] = len(self.codes)
        self.codes.append(code)

    def parts(
        self, movement: Movement, before: Slot, after: Slot, at: RaggedDims, table: Table
    ) -> tuple[UnequalPartsByGroup, int]:
        """The parts of an all-to-all between two slots, and the bytes that a rank has in the mean."""
        key = movement, before.whole, before.layout, after.layout, at, table
        if key not in self.exchanges:
            groups = self.program.mesh.groups(movement.axes)
            extents = self._extent(before), self._extent(after)
            exchanged = exchanged_elements(*extents, groups, at, self.tables[table])
            elements = int(exchanged.sum()) / groups.size / before.whole.shape[at.places]
            self.exchanges[key] = (
                UnequalPartsByGroup.of(exchanged),
                before.type.dtype.num_bytes(round(elements)),
            )
        return self.exchanges[key]


@dataclass
class _Sized:
    """A code with the sizes of one rank under one table."""

    router: _Router
    old: InstructionBlock
    ragged: RaggedSlots
    table: Table
    rank: int
    variant: int

    def code(self) -> InstructionBlock:
        """The code."""
        self.slots = tuple(self._slot(slot) for slot in self.old.slots)
        return replace(
            self.old, slots=self.slots, instructions=tuple(map(self._instruction, self.old.instructions))
        )

    def _slot(self, slot: Slot) -> Slot:
        at = self.ragged.dims.get(slot.name)
        if at is None:
            return slot
        rows = int(self.router._rows(slot, at, self.table)[self.rank])
        kind = filled_type(slot.type, at, rows, slot.whole.shape[at.places])
        return replace(slot, type=kind, num_bytes=_scaled(slot.num_bytes, kind, slot.type))

    def _instruction(self, instruction: Instruction) -> Instruction:
        touched = [
            slot
            for slot in (*instruction.reads, *instruction.writes)
            if self.slots[slot] is not self.old.slots[slot]
        ]
        if not touched:
            return instruction
        if instruction.action is InstructionKind.COLLECTIVE:
            return self._collective(instruction)
        if instruction.action is InstructionKind.COPY:
            # Between device and host: as much of each buffer as there is.
            (slot,) = instruction.reads
            return replace(
                instruction,
                num_bytes=_scaled(instruction.num_bytes, self.slots[slot].type, self.old.slots[slot].type),
            )
        if instruction.action is not InstructionKind.COMPUTE:
            raise PlanError(
                f"{instruction.name} carries what experts hold to another stage", path=ROUTING_PATH
            )
        largest, before = (
            max(slots[slot].type.num_bytes for slot in (*instruction.reads, *instruction.writes))
            for slots in (self.slots, self.old.slots)
        )
        return replace(
            instruction, works=self._works(instruction), scratch=round(instruction.scratch * largest / before)
        )

    # -- kernels ----------------------------------------------------------------------------------------

    def _works(self, instruction: Instruction) -> tuple[Work, ...]:
        """The kernels of an instruction on what is there; in the formats and by the releases that it had."""
        copies = tuple(work for work in instruction.works if ORDERED in work.sizes)
        own = tuple(work for work in instruction.works if ORDERED not in work.sizes)
        new, old = (
            [self._works_of(call, [slot.type for slot in slots]) for call in instruction.calls]
            for slots in (self.slots, self.old.slots)
        )
        if len(instruction.calls) > 1:
            # What stays inside of a kernel grows as what its operators move.
            total = [work for works in old for work in works]
            more = [work for works in new for work in works]
            inside = []
            for name in ("bytes_read", "bytes_written"):
                moved, now = (sum(getattr(work, name) for work in works) for works in (total, more))
                hidden = moved - sum(getattr(work, name) for work in own)
                inside.append(hidden * now // moved if moved else 0)
            new = [fused_work(new, (inside[0], inside[1]))]
        else:
            # So often as its passes over memory were more than they must be, those of other rows are, too.
            new = [tuple(map(_with_passes, new[0], old[0], own))]
        (works,) = new
        assert len(works) == len(own)
        return (*(_like(work, was) for work, was in zip(works, own, strict=True)), *copies)

    def _works_of(self, call: Call, kinds: Sequence[TensorType]) -> tuple[Work, ...]:
        """The kernels of one call on slots of these types, as lowering has them.

        A movement into a slot that takes no memory is a view, and launches nothing. What the slot took as it
        was lowered says so: a rank that gets no rows launches its kernels, as its framework would.
        """
        inputs, outputs = ([kinds[slot] for slot in indices] for indices in (call.inputs, call.outputs))
        if isinstance(call.operator, Operator):
            return tuple(call.operator.work(inputs, outputs, accumulate=bool(call.adds)))
        if not self.old.slots[call.outputs[0]].num_bytes:
            return ()
        moved = outputs[0].num_bytes
        return (Work(Kernel.COPY, outputs[0].dtype, flops=0, bytes_read=moved, bytes_written=moved),)

    # -- collectives ------------------------------------------------------------------------------------

    def _collective(self, instruction: Instruction) -> Instruction:
        (call,) = instruction.calls
        movement = call.operator
        assert isinstance(movement, Movement)
        (before,), (after,) = call.inputs, call.outputs
        old = self.old.slots
        if movement.kind is MovementKind.ALL_TO_ALL:
            at = self.ragged.dims[old[before].name]
            parts, num_bytes = self.router.parts(movement, old[before], old[after], at, self.table)
            # Of unequal parts the same share of rows goes once for several experts as of equal ones.
            whole = collective_bytes(movement, old[before].type, old[after].type, self.router.program.mesh)
            num_bytes = num_bytes * instruction.num_bytes // whole if whole else num_bytes
            if all(table.is_even for table in parts.tables):
                return replace(instruction, num_bytes=num_bytes)
            return replace(
                instruction, num_bytes=num_bytes, parts=parts, operation=str(MovementKind.ALL_TO_ALL_V)
            )
        mesh = self.router.program.mesh
        kinds = []
        for slot in (before, after):
            at = self.ragged.dims[old[slot].name]
            rows = self.router.most(old[slot], at, self.table, movement.axes)
            places = old[slot].whole.shape[at.places]
            kinds.append(filled_type(old[slot].type, at, int(rows[self.rank]), places))
        return replace(instruction, num_bytes=collective_bytes(movement, kinds[0], kinds[1], mesh))


def _with_passes(work: Work, plain: Work, was: Work) -> Work:
    """A kernel with as many times its least traffic as another, whose least traffic is ``plain``'s."""

    def bytes_of(name: str) -> int:
        now, least, moved = (int(getattr(kernel, name)) for kernel in (work, plain, was))
        return now * moved // least if least else now

    return replace(work, bytes_read=bytes_of("bytes_read"), bytes_written=bytes_of("bytes_written"))


def _like(work: Work, was: Work) -> Work:
    """A kernel in the format and by the release of another one, and as well aligned.

    Rows are what weight gradients sum over, and no operand's contiguous dim: how many there are changes
    nothing in how these lie.
    """
    sizes = (*work.sizes, *was.sizes[len(work.sizes) :])
    summed, before = dict(work.sizes).get("k"), dict(was.sizes).get("k")
    if summed != before and before is not None:
        sizes = (*sizes, ("aligned", before))
    return replace(work, dtype=was.dtype, sizes=sizes)


def _scaled(size: int, now: TensorType, before: TensorType) -> int:
    """Bytes of a buffer that had so many for the tensor as it was."""
    if size == before.num_bytes or not before.num_bytes:
        return now.num_bytes if size else 0
    return size * now.num_bytes // before.num_bytes
