"""The codes of a Program, each lowered once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.model import Block, Value
from simcluster.plan import ExecutionPolicy
from simcluster.program.isa import COMPUTE, InstructionBlock, Purpose, Scope, Slot
from simcluster.program.lowering.block_lowering import Lowering, lower_block
from simcluster.program.lowering.phases import BEGIN, FORWARD, GATHER, REDUCE, REGATHER, SCATTER
from simcluster.program.lowering.rooted_transfer import rooted_block
from simcluster.program.lowering.segments import phase_of
from simcluster.program.lowering.stage_transfer import transfer_block, transferred_slot


@dataclass
class CodeTable:
    """The blocks of instructions of a Program, each lowered once, by block and phase or value."""

    settings: Lowering
    stage_axis: str = ""
    on_all_stages: frozenset[str] = frozenset()
    """Blocks of which every stage has a slice; they do not wait for collectives inside of a code."""
    codes: list[InstructionBlock] = field(default_factory=list)
    by_block: dict[str, Mapping[str, int]] = field(default_factory=dict)
    transfers: dict[tuple[str, Slot], int] = field(default_factory=dict)
    rooted: dict[tuple[Value, int, Purpose, bool], int] = field(default_factory=dict)
    runs: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)

    @property
    def policy(self) -> ExecutionPolicy:
        """The framework's execution policy."""
        return self.settings.policy

    def of(self, block: Block, given: Mapping[str, Scope] | None = None) -> Mapping[str, int]:
        """Phase -> code index; ``given`` says how long values live that other blocks read."""
        if block.name not in self.by_block:
            settings = self.settings
            if block.name in self.on_all_stages:
                settings = replace(settings, segments=True)
            made = lower_block(block, settings, given)
            if self.policy.gathers_together and block.parameters:
                # Its weights are gathered in buckets, which are blocks without parameters.
                for phase in (BEGIN, GATHER, REGATHER):
                    made.pop(phase, None)
            if self.policy.scatters_together and block.parameters:
                made.pop(SCATTER, None)
            if not self.policy.by_layer and block.parameters:
                # Its gradients travel in buckets, which are blocks without parameters.
                made.pop(REDUCE, None)
            self.by_block[block.name] = {phase: self.add(code) for phase, code in made.items()}
        return self.by_block[block.name]

    def run(self, block: Block, phase: str) -> tuple[int, ...]:
        """The codes of a phase of a block in order: one, or its segments, or none."""
        key = block.name, phase
        if key not in self.runs:
            codes = self.of(block).items()
            self.runs[key] = tuple(code for name, code in codes if phase_of(name) == phase)
        return self.runs[key]

    def behind_barrier(self, block: Block) -> tuple[int, ...]:
        """Of the codes of a block's forward those behind the first that has collectives over stages."""
        codes = self.run(block, FORWARD)
        waiting = [
            place
            for place, code in enumerate(codes)
            if any(self.stage_axis in instruction.group for instruction in self.codes[code].instructions)
        ]
        return codes[waiting[0] + 1 :] if waiting else ()

    def transfer(self, stream: str, block: Block, value: str, *, gradient: bool) -> int:
        """The code that moves a value of a block, or its gradient, to or from a neighbouring stage."""
        kind = block.values[block.gradients[value] if gradient else value]
        slot = transferred_slot(kind, self.settings.mesh)
        key = (stream, slot)
        if key not in self.transfers:
            code = transfer_block(stream, slot, kind.role, self.settings.mesh, self.policy.p2p_scatter_axes)
            self.transfers[key] = self.add(code)
        return self.transfers[key]

    def rooted_transfer(
        self, value: Value, root: int, purpose: Purpose, *, reduced: bool, at_root: bool
    ) -> int:
        """The code that broadcasts a value from a stage, or reduces it there."""
        key = value, root, purpose, at_root
        if key not in self.rooted:
            mesh = self.settings.mesh
            self.rooted[key] = self.add(
                rooted_block(value, self.stage_axis, root, mesh, purpose, reduced=reduced, at_root=at_root)
            )
        return self.rooted[key]

    def step_streams(self, phase: str) -> tuple[str, ...]:
        """The streams of collectives in all codes of a phase."""
        codes = [code for code in self.codes if code.phase == phase]
        return tuple(dict.fromkeys(name for code in codes for name in code.streams if name != COMPUTE))

    def add(self, code: InstructionBlock) -> int:
        """Appends a block of instructions; its number in the Program."""
        self.codes.append(code)
        return len(self.codes) - 1
