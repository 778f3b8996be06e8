"""A lowered plan of a smaller model, and those between two of them that differ in their micro-batches alone.

What kernels have to do, what collectives move and what buffers hold is linear in the samples of a
micro-batch. So a plan between two that run the same instructions is not planned again: its numbers lie
between theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from simcluster.cluster import Cluster
from simcluster.deferred_dataclass import dataclass
from simcluster.model import Phase
from simcluster.plan import Plan, ShardingChoice
from simcluster.program import (
    MEASURE,
    NORM,
    UPDATE,
    BlockExecution,
    Category,
    Instruction,
    InstructionBlock,
    PersistentBuffer,
    Program,
    RankClasses,
    Slot,
    StageProgram,
    build,
    partition_ranks,
    routed_slots,
)
from simcluster.work import Work

TIMED = (Phase.FORWARD, Phase.RECOMPUTE, Phase.BACKWARD, Phase.WEIGHTS)
"""What runs for every micro-batch."""

_ONCE = (NORM, MEASURE, UPDATE)
"""What runs at the end of a step, which nobody asks for here."""

_WORKED_OUT = ("reads", "writes", "adds")
"""Properties of instructions that do not depend on how much they do."""


@dataclass(frozen=True, eq=False)
class SmallPlan:
    """A plan of one stage, for one micro-batch of so many samples on every data-parallel rank."""

    cluster: Cluster
    plan: Plan
    program: Program
    micro_batch: int
    is_routed: bool = False
    """Whether experts get unequally many tokens in the plans that it stands for."""

    @classmethod
    def of(cls, cluster: Cluster, plan: Plan, micro_batch: int, *, is_routed: bool = False) -> SmallPlan:
        """A plan, lowered."""
        # Reductions of gradients are not looked at: those of single layers are lowered soonest.
        alone = replace(plan, execution=replace(plan.execution, buckets=None, fusion=None))
        if plan.sharding.by_parameter:
            program = _with_mean_states(build(replace(alone, sharding=ShardingChoice()), without=_ONCE), plan)
        else:
            program = build(alone, without=_ONCE)
        return cls(cluster, plan, program, micro_batch, is_routed)

    @property
    def part(self) -> StageProgram:
        """What its ranks run."""
        return self.program.parts[0]

    @cached_property
    def first_executions(self) -> Mapping[Phase, Sequence[BlockExecution]]:
        """By phase what runs for the first micro-batch."""
        by_phase: dict[Phase, list[BlockExecution]] = {phase: [] for phase in TIMED}
        for execution in self.part.executions:
            phase = self.program.codes[execution.code].phase
            if execution.micro_batch == 0 and phase in by_phase:
                by_phase[Phase(phase)].append(execution)
        return by_phase

    @cached_property
    def routed_slots(self) -> Mapping[str, frozenset[str]]:
        """By instance the slots of which nothing is known, as they hold what is routed to experts."""
        return routed_slots(self.program) if self.is_routed else {}

    @cached_property
    def classes(self) -> RankClasses:
        """Which of its ranks behave alike."""
        return partition_ranks(self.program, self.cluster)

    def holds_alike(self, larger: SmallPlan) -> bool:
        """Whether a plan for larger micro-batches has the same buffers, but for their sizes."""
        codes = self.program.codes, larger.program.codes
        return len(codes[0]) == len(codes[1]) and all(map(_same_outline, *codes))

    def between(self, larger: SmallPlan, micro_batch: int) -> SmallPlan | None:
        """The same for a micro-batch between this one's and that of a ``larger`` one.

        None where these two do not run the same instructions, or are not on one line with whole numbers.
        """
        above, below = micro_batch - self.micro_batch, larger.micro_batch - micro_batch
        between = _Between(self.micro_batch, above, below, self.program, larger.program)
        program = between.program() if self.plan.execution.call_reuse is None else None
        if program is None:
            return None
        made = SmallPlan(self.cluster, self.plan, program, micro_batch, self.is_routed)
        # Which executions there are is the same, too.
        vars(made)["first_executions"] = self.first_executions
        vars(made)["routed_slots"] = self.routed_slots
        vars(made)["classes"] = self.classes  # that depends on who meets whom, not on how much is moved
        return made


def _with_mean_states(program: Program, plan: Plan) -> Program:
    """A Program whose ranks all hold equal shares of the states of whole parameters.

    Some owner holds no less than the mean, of any number of layers; how much each of them holds follows from
    the sizes of all parameters of a stage.
    """

    def shared(held: PersistentBuffer) -> PersistentBuffer:
        if held.category is not Category.OPTIMIZER:
            return held
        free = [axis for axis in plan.sharding.axes if axis not in held.layout.axes]
        return replace(held, num_bytes=held.num_bytes // plan.mesh.product(free))

    parts = (replace(part, residents=tuple(map(shared, part.residents))) for part in program.parts)
    return replace(program, parts=tuple(parts))


class _OffTheLine(Exception):
    """Two plans between which no other lies."""


@dataclass(frozen=True, slots=True)
class _Between:
    """A Program so many samples ``above`` one, for ``smaller_batch`` of them, and ``below`` another."""

    smaller_batch: int
    above: int
    below: int
    smaller: Program
    larger: Program

    def program(self) -> Program | None:
        """The Program; None if there is none."""
        small, large = self.smaller, self.larger
        held = small.parts[0].residents, large.parts[0].residents
        if len(small.codes) != len(large.codes) or len(held[0]) != len(held[1]):
            return None
        try:
            codes = tuple(map(self._code, small.codes, large.codes))
            residents = tuple(map(self._resident, *held))
        except _OffTheLine:
            return None
        return replace(small, codes=codes, parts=(replace(small.parts[0], residents=residents),))

    def _resident(self, small: PersistentBuffer, large: PersistentBuffer) -> PersistentBuffer:
        """What is held for good: as much for every micro-batch, but where operands are kept."""
        return replace(small, num_bytes=self._number(small.num_bytes, large.num_bytes))

    def _number(self, small: int, large: int) -> int:
        if small == large:
            return small
        number, rest = divmod(small * self.below + large * self.above, self.above + self.below)
        if rest:
            raise _OffTheLine
        return number

    def _bytes(self, small: int, large: int) -> int:
        """Bytes that a kernel moves: rounded, where profiles say how often it passes over them. So a line
        between two may end between whole bytes; no more than the plan's own are counted.
        """
        return (small * self.below + large * self.above) // (self.above + self.below)

    def _least(self, small: int, large: int) -> int:
        """At least so much, of what grows with the micro-batch, from some size on in proportion to it."""
        samples, most = self.smaller_batch + self.above, self.smaller_batch + self.above + self.below
        return max(small, large * samples // most)

    def _code(self, small: InstructionBlock, large: InstructionBlock) -> InstructionBlock:
        if not _same_outline(small, large):
            raise _OffTheLine
        if small.phase not in TIMED:
            return small
        return replace(
            small,
            instructions=tuple(map(self._instruction, small.instructions, large.instructions)),
            slots=tuple(map(self._slot, small.slots, large.slots)),
        )

    def _slot(self, small: Slot, large: Slot) -> Slot:
        num_bytes = self._number(small.num_bytes, large.num_bytes)
        return small if num_bytes == small.num_bytes else replace(small, num_bytes=num_bytes)

    def _instruction(self, small: Instruction, large: Instruction) -> Instruction:
        if _line(small) != _line(large) or small.parts is not None or large.parts is not None:
            raise _OffTheLine
        made = replace(
            small,
            works=tuple(map(self._work, small.works, large.works)),
            num_bytes=self._number(small.num_bytes, large.num_bytes),
        )
        # Which slots it reads and writes has been worked out before.
        known = vars(small)
        vars(made).update({name: known[name] for name in _WORKED_OUT if name in known})
        return made

    def _work(self, small: Work, large: Work) -> Work:
        if small == large:
            return small
        if (small.kernel, small.dtype) != (large.kernel, large.dtype):
            raise _OffTheLine
        sizes = []
        for (name, size), (other, wider) in zip(small.sizes, large.sizes, strict=True):
            if name != other:
                raise _OffTheLine
            sizes.append((name, self._number(size, wider)))
        # Kernels without sizes are bound by memory; some count the larger of two tensors, which is no line.
        flops = (self._number if sizes else self._least)(small.flops, large.flops)
        return Work(
            small.kernel,
            small.dtype,
            flops,
            self._bytes(small.bytes_read, large.bytes_read),
            self._bytes(small.bytes_written, large.bytes_written),
            tuple(sizes),
        )


def _same_outline(code: InstructionBlock, other: InstructionBlock) -> bool:
    return _outline(code) == _outline(other)


def _outline(code: InstructionBlock) -> tuple[object, ...]:
    slots = [(slot.name, slot.scope, slot.place, slot.category) for slot in code.slots]
    return code.name, code.phase, len(code.instructions), slots


def _line(instruction: Instruction) -> tuple[object, ...]:
    """All of an instruction but for how much it is."""
    return (
        instruction.name,
        instruction.action,
        instruction.stream,
        instruction.operation,
        instruction.group,
        instruction.after,
        instruction.last_uses,
        instruction.bandwidth_limit,
        instruction.piece,
        instruction.dispatch_cost,
        instruction.host_waits,
        instruction.host_time,
        len(instruction.works),
        [(call.name, call.inputs, call.outputs, call.adds) for call in instruction.calls],
    )
