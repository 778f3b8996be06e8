"""A code with the sizes of one rank, where experts get unequally many tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.layout import Movement, MovementKind
from simcluster.model import Operator, TensorType
from simcluster.plan import ROUTING_PATH, collective_bytes
from simcluster.program.isa import Call, Instruction, InstructionBlock, InstructionKind, Slot
from simcluster.program.lowering import ORDERED, fused_work
from simcluster.program.routing.dynamic_shapes import RaggedSlots, filled_type
from simcluster.program.routing.rank_rows import RankRows, Table
from simcluster.work import Kernel, Work


@dataclass
class SizedCode:
    """A code with the sizes of one rank under one table."""

    old: InstructionBlock
    ragged: RaggedSlots
    rows: RankRows
    table: Table
    rank: int

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
        rows = int(self.rows.rows(slot, at, self.table)[self.rank])
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
            parts, num_bytes = self.rows.parts(movement, old[before], old[after], at, self.table)
            # Of unequal parts the same share of rows goes once for several experts as of equal ones.
            whole = collective_bytes(movement, old[before].type, old[after].type, self.rows.mesh)
            num_bytes = num_bytes * instruction.num_bytes // whole if whole else num_bytes
            if all(table.is_even for table in parts.tables):
                return replace(instruction, num_bytes=num_bytes)
            return replace(
                instruction, num_bytes=num_bytes, parts=parts, operation=str(MovementKind.ALL_TO_ALL_V)
            )
        mesh = self.rows.mesh
        kinds = []
        for slot in (before, after):
            at = self.ragged.dims[old[slot].name]
            rows = self.rows.most(old[slot], at, self.table, movement.axes)
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
