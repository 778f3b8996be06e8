"""The Program: the instructions that ranks run, and the buffers they hold throughout."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from operator import add

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout, Mesh
from simcluster.model import MemoryPlace, TensorType
from simcluster.program.isa.buffer_numbers import BufferNumbers
from simcluster.program.isa.executions import Executions
from simcluster.program.isa.instruction import (
    BlockExecution,
    Category,
    InstructionBlock,
    Scope,
    peer_is_next_stage,
)
from simcluster.work import DType


@dataclass(frozen=True, slots=True)
class PersistentBuffer:
    """A buffer that exists from before the step to after it."""

    name: str
    """What it is called in its part of the Program."""
    category: Category
    """What its memory is booked under."""
    num_bytes: int
    """What it takes; nothing for a view of another buffer."""
    whole: TensorType
    """The type of the tensor of which it is a part."""
    layout: Layout
    """Which part of that it is."""
    origin: str = ""
    """The parameter whose initial values it starts with; empty if it starts at zero."""
    place: MemoryPlace = MemoryPlace.DEVICE
    """The memory that it is in."""
    tensor: str = ""
    """What it is called in checkpoints, alike in every plan: a weight as in the logical graph, its states and
    its master copy with their name behind it. Empty for what is not saved, such as gradients."""
    rows_of: tuple[int, int] | None = None
    """Of rows of a table on a server: the first one, and how many the whole has; ``whole`` is these rows."""

    @classmethod
    def reserved(cls, name: str, category: Category, num_bytes: int) -> PersistentBuffer:
        """A buffer of so many bytes that holds no tensor, as an allocator's reserve."""
        return cls(name, category, num_bytes, TensorType((0,), DType.UINT8), Layout.replicated(1))


@dataclass(frozen=True)
class StageProgram:
    """The executions of one part of the Program, in program order, and the buffers of its ranks.

    A part is a pipeline stage; where the ranks of a stage train unequal numbers of micro-batches, it is those
    of the stage that train equally many. ``names`` maps (instance, slot name) to the buffer's name among all
    of the part, where it is not simply ``instance.slot``: values that cross blocks, tied parameters.
    ``slices`` are, of instances that work on one slice of sequences, the instance of the first slice and the
    slice.
    """

    columns: Executions
    residents: tuple[PersistentBuffer, ...]
    names: Mapping[tuple[str, str], str] = field(default_factory=dict)
    slices: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def executions(self) -> tuple[BlockExecution, ...]:
        """The executions one by one."""
        return self.columns.objects

    def buffer(self, instance: str, slot: str) -> str:
        """The name of a slot of an instance among all of the part."""
        return self.names.get((instance, slot)) or f"{instance}.{slot}"

    @cached_property
    def saved(self) -> Mapping[str, PersistentBuffer]:
        """What a checkpoint of training holds: tensor -> the buffer that has it."""
        return {
            resident.tensor: resident for resident in self.residents if resident.tensor and resident.num_bytes
        }

    @cached_property
    def views(self) -> Mapping[str, PersistentBuffer]:
        """Tensor -> the view of its shard, if there is one: what an optimizer updates.

        The weight itself may be gathered from it as late as at the beginning of the next step.
        """
        return {
            resident.tensor: resident
            for resident in self.residents
            if resident.tensor in self.saved and not resident.num_bytes
        }

    @cached_property
    def buffer_numbers(self) -> BufferNumbers:
        """Numbers of the buffers."""
        return BufferNumbers(self.buffer)

    def buffers(self, instances: Iterable[str], slot: str) -> list[str]:
        """The names of a slot of some instances."""
        if slot in self._renamed:
            return [self.buffer(instance, slot) for instance in instances]
        return [f"{instance}.{slot}" for instance in instances]

    @cached_property
    def _renamed(self) -> frozenset[str]:
        return frozenset(slot for _, slot in self.names)


@dataclass(frozen=True)
class Program:
    """Blocks of instructions, and which of them each part of the ranks executes."""

    mesh: Mesh
    """The ranks by axes."""
    stage_axis: str
    """The axis along which a rank's coordinate is its pipeline stage."""
    codes: tuple[InstructionBlock, ...]
    """All blocks, each once."""
    parts: tuple[StageProgram, ...]
    """What the ranks of each part run: the variants of a stage one after another, stage by stage."""
    variant_axis: str = ""
    """The axis along which ranks of a stage run different parts; empty: parts are stages."""
    variants: tuple[int, ...] = (0,)
    """By coordinate along that axis: which part of the stage a rank runs."""
    workspaces: int = 0
    """Workspaces of the matmul library on every device."""
    workspace: int | None = None
    """Bytes of each; None: as many as the device's library takes."""
    assigned: tuple[int, ...] = ()
    """By rank the part that it runs, where that follows from no axis."""
    apart: bool = False
    """Whether no two ranks are alike, because servers work for each of them by itself."""

    @property
    def places_off_device(self) -> Sequence[MemoryPlace]:
        """Host memory and disks, as far as it holds anything there."""
        places = {slot.place for code in self.codes for slot in code.slots}
        places |= {resident.place for part in self.parts for resident in part.residents}
        return [place for place in MemoryPlace if place in places and place is not MemoryPlace.DEVICE]

    @cached_property
    def has_gates(self) -> bool:
        """Whether anything waits at a gate."""
        return any(instruction.gate for code in self.codes for instruction in code.instructions)

    def stage_of(self, rank: int) -> int:
        """The pipeline stage of a rank."""
        return self.part_of(rank) // self.num_variants

    def part_of(self, rank: int) -> int:
        """The part that a rank runs, as an index into ``parts``."""
        return int(self.part_of_rank[rank])

    def role_of(self, rank: int) -> str:
        """Which of several programs written by hand a rank runs, or what it is beside parameter servers."""
        if not self.mesh.off_axes:
            return f"program {self.part_of(rank)}"
        number = rank - self.mesh.num_on_axes
        if number < 0:
            return "workers"
        return "scheduler" if rank == self.mesh.num_ranks - 1 else f"server {number}"

    def fullest(self, stage: int) -> int:
        """The part of a stage with the most micro-batches."""
        parts = range(stage * self.num_variants, (stage + 1) * self.num_variants)
        return max(parts, key=lambda part: len(self.parts[part].columns))

    @property
    def num_variants(self) -> int:
        """Parts of every stage."""
        return max(self.variants) + 1

    @property
    def num_stages(self) -> int:
        """Pipeline stages."""
        return len(self.parts) // self.num_variants

    @cached_property
    def ring(self) -> bool:
        """Whether the last stage sends to, or receives from, the first as its next stage."""
        last = {code for part in self.parts[-self.num_variants :] for code, _ in part.columns.pairs}
        streams = {stream for code in last for stream in self.codes[code].streams}
        return any(map(peer_is_next_stage, streams))

    @cached_property
    def part_of_rank(self) -> NDArray[np.int64]:
        """The part of every rank, shape [ranks]."""
        if self.assigned:
            return np.array(self.assigned, dtype=np.int64)

        def along(axis: str) -> NDArray[np.int64]:
            if axis not in self.mesh.sizes:
                return np.zeros(self.mesh.num_ranks, dtype=np.int64)
            return np.asarray(self.mesh.coordinates[:, self.mesh.names.index(axis)])

        variant = np.array(self.variants, dtype=np.int64)[along(self.variant_axis)]
        return np.asarray(along(self.stage_axis) * self.num_variants + variant)

    @cached_property
    def references(self) -> tuple[Mapping[str, int], ...]:
        """Per part: buffer of micro-batch scope -> how many last uses must be over before it is released."""
        counted = []
        for part in self.parts:
            uses = (
                (instance, self.codes[code].slots[slot])
                for code, instance in part.columns.pairs
                for instruction in self.codes[code].instructions
                for slot in instruction.last_uses
            )
            names = (
                part.buffer(instance, slot.name) for instance, slot in uses if slot.scope is Scope.MICRO_BATCH
            )
            counted.append(dict(Counter(names)))
        return tuple(counted)

    @cached_property
    def shares(self) -> tuple[Mapping[tuple[str, int], int], ...]:
        """Per part: kept buffer and the micro-batch it was gathered for -> last uses until its release."""
        kept = [
            [
                code.slots[slot].name
                for instruction in code.instructions
                for slot in instruction.last_uses
                if code.slots[slot].scope is Scope.KEPT
            ]
            for code in self.codes
        ]
        return tuple(
            dict(
                Counter(
                    (part.buffer(execution.instance, name), execution.weights_of_micro_batch)
                    for execution in (part.executions if any(kept) else ())
                    for name in kept[execution.code]
                )
            )
            for part in self.parts
        )

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Every group of axes that a collective runs over, sorted."""
        return tuple(
            sorted(
                {
                    instruction.group
                    for code in self.codes
                    for instruction in code.instructions
                    if instruction.group
                }
            )
        )

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
            for instruction in code.instructions:
                shapes = [str(code.slots[slot].type) for slot in (*instruction.reads, *instruction.writes)]
                what = [str(getattr(call.operator, "kind", "")) for call in instruction.calls]
                links = (
                    f"{instruction.group} {instruction.num_bytes} {instruction.after} {instruction.last_uses}"
                )
                links += f" {instruction.parts.digest()}" if instruction.parts else ""
                links += f" {instruction.gate}" if instruction.gate else ""
                links += f" opens {instruction.opens}" if instruction.opens else ""
                links += (
                    f" in {instruction.piece} x {instruction.dispatch_cost:g}" if instruction.piece else ""
                )
                yield f"  {instruction.stream} {what} {shapes} {links}\n"
        for part in self.parts:
            pairs = [f"{code} {instance} " for code, instance in part.columns.pairs]
            most = int(part.columns.micro_batch.max(initial=-1))
            numbers = [f"{micro_batch}\n" for micro_batch in (*range(most + 1), -1)]
            runs = (part.columns.pair.tolist(), part.columns.micro_batch.tolist())
            yield "".join(map(add, map(pairs.__getitem__, runs[0]), map(numbers.__getitem__, runs[1])))
            for resident in part.residents:
                yield f"{resident.category} {resident.num_bytes}\n"
