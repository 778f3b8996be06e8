"""A Program as routing makes it: ranks hold, send and compute as many rows as their experts get.

What is lowered takes every expert for equally popular. Where the scenario says otherwise, ranks whose experts
get unequally many tokens run parts of their own: codes with other sizes, and all-to-alls with parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.layout import MovementKind
from simcluster.number_arrays import Ints
from simcluster.plan import ROUTING_PATH, ExpertRouting
from simcluster.program.isa import (
    BlockExecution,
    Executions,
    InstructionBlock,
    InstructionKind,
    Program,
    Slot,
)
from simcluster.program.routing.dynamic_shapes import (
    RaggedSlots,
)
from simcluster.program.routing.rank_rows import RankRows
from simcluster.program.routing.sized_code import SizedCode

MOST_CODES = 2**17
"""Codes of sizes of their own that are written at most; each takes some milliseconds to price."""


def apply_routing(program: Program, routing: ExpertRouting, layers: Sequence[str]) -> Program:
    """The Program with the sizes that ``routing`` gives; itself where that changes nothing.

    ``layers`` are the instances of the model in order. What is gathered or reduced over ranks that hold
    unequally much is padded to the most that any of them holds. PlanError where routing is not supported.
    """
    ragged = _ragged_slots(program)
    changed = {name for name, slots in ragged.items() if not routing.uniform or slots.demand.most is not None}
    if not changed:
        if not routing.uniform and not ragged:
            raise PlanError(
                "this routing changes nothing: no layer has experts whose number of tokens varies",
                path=ROUTING_PATH,
                hint="use a mixture of experts without a padded capacity, or leave out training.routing",
            )
        return program
    if program.num_variants > 1 or program.assigned:
        raise PlanError("not supported yet with unequal shares of the batch", path=ROUTING_PATH)
    routed = [name for name in layers if name in changed]
    rows = RankRows(program.mesh, routing, routed, ragged)
    return _Router(program, routed, ragged, rows).run()


def routed_slots(program: Program) -> dict[str, frozenset[str]]:
    """By instance the slots whose sizes depend on how many tokens experts get."""
    return {instance: frozenset(slots.dims) for instance, slots in _ragged_slots(program).items()}


def serves_all_tokens(program: Program) -> bool:
    """Whether experts together get all tokens that come, however unequally: none drops some."""
    return all(slots.demand.most is None for slots in _ragged_slots(program).values())


def _ragged_slots(program: Program) -> dict[str, RaggedSlots]:
    """By instance the slots whose sizes depend on how many tokens experts get, where it has any."""
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
    return by_instance


@dataclass
class _Router:
    program: Program
    layers: Sequence[str]
    ragged: Mapping[str, RaggedSlots]
    rows: RankRows
    codes: list[InstructionBlock] = field(default_factory=list)
    numbers: dict[tuple[object, ...], int] = field(default_factory=dict)
    known: dict[int, list[tuple[Slot, tuple[str, ...]]]] = field(default_factory=dict)

    def run(self) -> Program:
        program, mesh = self.program, self.program.mesh
        variants = self._variants()
        count = int(variants.max()) + 1
        wanted = len(self.rows.tables) * count
        if wanted > MOST_CODES:
            raise PlanError(
                f"{len(self.rows.tables):,} tables of tokens for {count:,} different ranks are too many",
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

    def _variants(self) -> Ints:
        """A number per rank: equal for those that hold equally many rows of everything."""
        columns: dict[tuple[object, ...], Ints] = {}
        for part in self.program.parts:
            for run in part.executions:
                if run.instance not in self.layers:
                    continue
                table, slots = self.rows.table(run.instance, run.micro_batch), self.ragged[run.instance]
                for slot, axes in self._ragged_of(run.code, slots):
                    at = slots.dims[slot.name]
                    key = slot.whole, slot.layout, at, table, axes
                    if key not in columns:
                        columns[key] = self.rows.most(slot, at, table, axes)
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
        if run.instance in self.layers and self._ragged_of(run.code, self.ragged[run.instance]):
            slots = self.ragged[run.instance]
            table = self.rows.table(run.instance, run.micro_batch)
            key: tuple[object, ...] = (run.code, table, variant)
            if key not in self.numbers:
                self._add(key, SizedCode(code, slots, self.rows, table, rank).code())
        else:
            key = (run.code,)
            if key not in self.numbers:
                self._add(key, code)
        return replace(run, code=self.numbers[key])

    def _add(self, key: tuple[object, ...], code: InstructionBlock) -> None:
        self.numbers[key] = len(self.codes)
        self.codes.append(code)
