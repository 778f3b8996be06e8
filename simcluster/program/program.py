"""The Program: what the ranks of every stage run, and the memory they hold all along."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from simcluster.layout import Layout, Mesh
from simcluster.model import TensorType
from simcluster.program.instruction import Category, Code, Execution, Scope


@dataclass(frozen=True, slots=True)
class Resident:
    """A buffer that exists from before the step to after it.

    It is the part that ``layout`` gives a rank of a tensor of type ``whole``; ``origin`` names the parameter
    whose initial values it starts with, or is empty if it starts at zero.
    """

    name: str
    category: Category
    num_bytes: int
    whole: TensorType
    layout: Layout
    origin: str = ""


@dataclass(frozen=True)
class StageProgram:
    """What each rank of one pipeline stage runs, in program order.

    ``names`` maps (instance, slot name) to the buffer's name among all of the stage, where it is not simply
    ``instance.slot``: values that cross blocks, tied parameters.
    """

    executions: tuple[Execution, ...]
    residents: tuple[Resident, ...]
    names: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def buffer(self, instance: str, slot: str) -> str:
        """The stage-wide name of a slot of an instance."""
        return self.names.get((instance, slot)) or f"{instance}.{slot}"


@dataclass(frozen=True)
class Program:
    """Codes and what each stage makes of them; rank -> stage is the coordinate along ``stage_axis``."""

    mesh: Mesh
    stage_axis: str
    codes: tuple[Code, ...]
    stages: tuple[StageProgram, ...]

    def stage_of(self, rank: int) -> int:
        """The pipeline stage of a rank."""
        return self.mesh.coordinate(rank, self.stage_axis)

    @cached_property
    def references(self) -> tuple[Mapping[str, int], ...]:
        """Per stage: buffer of micro-batch scope -> how many droppers must end before it is released."""
        found = []
        for stage in self.stages:
            runs = {(execution.code, execution.instance) for execution in stage.executions}
            counts: Counter[str] = Counter()
            for index, instance in runs:
                code = self.codes[index]
                for instruction in code.instructions:
                    for slot in instruction.drops:
                        if code.slots[slot].scope is Scope.MICRO_BATCH:
                            counts[stage.buffer(instance, code.slots[slot].name)] += 1
            found.append(dict(counts))
        return tuple(found)

    @cached_property
    def shares(self) -> tuple[Mapping[tuple[str, int], int], ...]:
        """Per stage: kept buffer and the micro-batch it was gathered for -> droppers until its release."""
        found = []
        for stage in self.stages:
            kept: Counter[tuple[str, int]] = Counter()
            for execution in stage.executions:
                code = self.codes[execution.code]
                for slot in (slot for each in code.instructions for slot in each.drops):
                    if code.slots[slot].scope is Scope.KEPT:
                        name = stage.buffer(execution.instance, code.slots[slot].name)
                        kept[name, execution.gathered] += 1
            found.append(dict(kept))
        return tuple(found)

    @cached_property
    def makers(self) -> tuple[Mapping[str, int], ...]:
        """Per stage: buffer of micro-batch scope -> how many runs of codes write it, each adding to it."""
        found = []
        for stage in self.stages:
            runs = {(execution.code, execution.instance) for execution in stage.executions}
            counts: Counter[str] = Counter()
            for index, instance in runs:
                code = self.codes[index]
                written = {slot for instruction in code.instructions for slot in instruction.writes}
                for slot in written:
                    if code.slots[slot].scope is Scope.MICRO_BATCH:
                        counts[stage.buffer(instance, code.slots[slot].name)] += 1
            found.append(dict(counts))
        return tuple(found)

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Every group of axes that a collective runs over, sorted."""
        return tuple(sorted({each.group for code in self.codes for each in code.instructions if each.group}))

    def digest(self) -> str:
        """A structural digest: equal for Programs with the same kinds, shapes, groups and order."""
        total = hashlib.sha256()
        for line in self._lines():
            total.update(line.encode())
        return total.hexdigest()[:16]

    def _lines(self) -> Iterator[str]:
        yield f"mesh {self.mesh}\n"
        for code in self.codes:
            yield f"code {code.name} {code.phase}\n"
            for each in code.instructions:
                shapes = [str(code.slots[slot].type) for slot in (*each.reads, *each.writes)]
                what = [str(getattr(call.operator, "kind", "")) for call in each.calls]
                links = f"{each.group} {each.num_bytes} {each.after} {each.drops}"
                yield f"  {each.stream} {what} {shapes} {links}\n"
        for stage in self.stages:
            for run in stage.executions:
                yield f"{run.code} {run.instance} {run.micro_batch}\n"
            for resident in stage.residents:
                yield f"{resident.category} {resident.num_bytes}\n"
