"""Parts of ranks that update some parameters for all: their own updates and states, and broadcasts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.layout import Mesh, Movement, MovementKind, rooted_axis
from simcluster.model import Block, Graph, Instance, Role
from simcluster.plan import Owners, ParameterOwner, assign_owners
from simcluster.program.isa import (
    BlockExecution,
    Call,
    Category,
    Executions,
    Instruction,
    InstructionBlock,
    InstructionKind,
    Program,
    Purpose,
    Scope,
    Slot,
    StageProgram,
    collective_stream,
)
from simcluster.program.lowering import MEASURE, UPDATE, CodeTable, local_type, lower_block, phases_of
from simcluster.program.stages import ONCE

_OWNED = (MEASURE, UPDATE)


@dataclass
class OwnedUpdates:
    """Splits a stage's part into one for each position along ``axes``, whose ranks update what they own."""

    graph: Graph
    """The graph that is lowered."""
    axes: tuple[str, ...]
    """The axes along which parameters have replicas."""
    mesh: Mesh
    """The mesh of all ranks."""
    codes: CodeTable
    """Where the codes are added."""
    updates: dict[tuple[str, frozenset[str]], Mapping[str, int]] = field(default_factory=dict)
    broadcasts: dict[tuple[str, tuple[str, ...], ParameterOwner, bool], int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Parts of every stage."""
        return self.mesh.product(self.axes)

    def run(self, program: Program) -> Program:
        """The Program with these parts in place of those of its stages."""
        if program.num_variants > 1 or program.apart:
            raise PlanError(
                "whole parameters on one rank: ranks of a stage run unequal programs already",
                path="parallel.optimizer_sharding.split",
                hint="write split: flat",
            )
        at = [self.mesh.coordinates[:, self.mesh.names.index(axis)] for axis in self.axes]
        places = np.ravel_multi_index(at, [self.mesh.size(axis) for axis in self.axes])
        stages = {
            stage: [one for one in self.graph.instances if one.stage == stage or one.on_all_stages]
            for stage in range(program.num_stages)
        }
        parts = [made for stage, part in enumerate(program.parts) for made in self.parts(part, stages[stage])]
        return replace(
            program,
            codes=tuple(self.codes.codes),
            parts=tuple(parts),
            variant_axis="",
            variants=tuple(range(self.count)),
            assigned=tuple((program.part_of_rank * self.count + places).tolist()),
        )

    def parts(self, part: StageProgram, instances: Sequence[Instance]) -> Iterator[StageProgram]:
        """The parts of a stage with these instances, place by place."""
        owners = assign_owners(self.graph, instances, self.axes, self.mesh)
        by_name = {instance.name: self.graph.block_of(instance) for instance in instances}
        for place in np.ndindex(*(self.mesh.size(axis) for axis in self.axes)):
            coordinates = dict(zip(self.axes, map(int, place), strict=True))
            owned = {key for key, owner in owners.items() if owner.has(coordinates)}
            runs = [*self._updates(part, by_name, owned), *self._broadcasts(by_name, owners, owned)]
            lost = set(self._states(part, by_name, owners.keys() - owned))
            residents = tuple(resident for resident in part.residents if resident.name not in lost)
            yield replace(part, columns=Executions.of(runs), residents=residents)

    def _updates(
        self, part: StageProgram, blocks: Mapping[str, Block], owned: set[tuple[str, str]]
    ) -> Iterator[BlockExecution]:
        """The executions of the part, of updates those of owned parameters alone."""
        for run in part.executions:
            phase = self.codes.codes[run.code].phase
            if phase not in _OWNED or run.instance not in blocks:
                yield run
                continue
            block = blocks[run.instance]
            names = frozenset(name for name in block.parameters if (run.instance, name) in owned)
            code = self._codes(block, names).get(phase)
            if code is not None:
                yield replace(run, code=code)

    def _codes(self, block: Block, names: frozenset[str]) -> Mapping[str, int]:
        """Phase -> the code that updates some parameters of a block."""
        key = block.name, names
        if key not in self.updates:
            phases = phases_of(block)
            parameter_of = {gradient: name for name, gradient in block.gradients.items()}
            dropped = {
                node.name
                for phase in _OWNED
                for node in phases[phase]
                if parameter_of.get(node.origin, node.origin) in {*block.parameters} - names
            }
            kept = replace(block, nodes=tuple(node for node in block.nodes if node.name not in dropped))
            settings = replace(self.codes.settings, without=[name for name in phases if name not in _OWNED])
            made = lower_block(kept, settings)
            self.updates[key] = {phase: self.codes.add(code) for phase, code in made.items()}
        return self.updates[key]

    def _states(
        self, part: StageProgram, blocks: Mapping[str, Block], others: Iterable[tuple[str, str]]
    ) -> Iterator[str]:
        """The buffers of the states of parameters that others own."""
        for instance, parameter in others:
            for name, value in blocks[instance].values.items():
                if value.role is Role.STATE and name.startswith(f"{parameter}."):
                    yield part.buffer(instance, name)

    def _broadcasts(
        self, blocks: Mapping[str, Block], owners: Owners, owned: set[tuple[str, str]]
    ) -> Iterator[BlockExecution]:
        """The new weights, from each owner of parameters of a block in one message, block by block."""
        together: defaultdict[tuple[str, ParameterOwner], list[str]] = defaultdict(list)
        for (instance, parameter), owner in owners.items():
            if owner.axes:
                together[instance, owner].append(parameter)
        order = {instance: number for number, instance in enumerate(blocks)}
        ordered = sorted(together.items(), key=lambda item: (order[item[0][0]], item[0][1].place))
        for (instance, owner), parameters in ordered:
            here = (instance, parameters[0]) in owned
            code = self._broadcast(blocks[instance], tuple(parameters), owner, here)
            yield BlockExecution(code, instance, ONCE, "end")

    def _broadcast(self, block: Block, names: tuple[str, ...], owner: ParameterOwner, here: bool) -> int:
        """The code that sends weights of a block to all who replicate them, at the owner or elsewhere."""
        key = block.name, names, owner, here
        if key not in self.broadcasts:
            pairs = zip(owner.axes, owner.place, strict=True)
            group = tuple(rooted_axis(axis, place, self.mesh.size(axis)) for axis, place in pairs)
            slots = tuple(self._slot(block, name) for name in names)
            moving = Movement(MovementKind.BROADCAST, group)
            calls = tuple(
                Call(name, moving, (index,) if here else (), () if here else (index,))
                for index, name in enumerate(names)
            )
            sending = Instruction(
                str(moving.kind),
                InstructionKind.COLLECTIVE,
                collective_stream(group, Purpose.ONCE),
                calls,
                operation=str(moving.kind),
                group=group,
                num_bytes=sum(slot.type.num_bytes for slot in slots),
                reason="one rank updates a parameter for all that hold it",
            )
            self.broadcasts[key] = self.codes.add(
                InstructionBlock(f"{block.name}.weights", UPDATE, (sending,), slots)
            )
        return self.broadcasts[key]

    def _slot(self, block: Block, name: str) -> Slot:
        value = block.values[name]
        assert value.layout is not None
        local = local_type(value, self.mesh)
        return Slot(name, Scope.STEP, local, Category.PARAMETERS, local.num_bytes, value.type, value.layout)
