"""The input pipeline in the Program: reading, decoding and copying every micro-batch before it is used.

A device holds the micro-batch it works on and the next one; the host has so many more decoded as the plan
says. What is prepared at the end of a step is for the beginning of the next: a run begins in the middle of a
long one, and its step is what a long one's is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from simcluster.cluster import HostPath
from simcluster.deferred_dataclass import dataclass
from simcluster.model import MemoryPlace
from simcluster.plan import InputPipeline
from simcluster.program.isa import (
    COMPUTE,
    INPUT,
    BlockExecution,
    Category,
    Executions,
    Instruction,
    InstructionBlock,
    InstructionKind,
    PersistentBuffer,
    StreamId,
)
from simcluster.program.lowering import FORWARD

READ, DECODE, TO_DEVICE = (StreamId(f"{INPUT} ({what})", (INPUT,)) for what in ("read", "decode", "copy"))
"""The streams of the input pipeline."""


@dataclass(frozen=True, slots=True)
class RankInput:
    """What a rank reads of each micro-batch: bytes on the device, and samples, also in fractions."""

    num_bytes: int
    samples: float

    @classmethod
    def of(cls, codes: Sequence[InstructionBlock]) -> RankInput:
        """What the feeds of some codes need; what only the host reads is counted as samples alone."""
        feeds = {(slot.name, slot.part): slot for code in codes for slot in code.slots if slot.feed}
        parts = [
            slot.whole.shape[0] * slot.type.num_elements / slot.whole.num_elements for slot in feeds.values()
        ]
        brought = [slot.type.num_bytes for slot in feeds.values() if slot.place is MemoryPlace.DEVICE]
        return cls(sum(brought), max(parts, default=0.0))


def input_codes(inputs: InputPipeline, fed: RankInput) -> list[InstructionBlock]:
    """The blocks that bring a micro-batch to a device: read and decode, if they take time, and copy."""
    copies = []
    if inputs.way is not None:
        size = fed.num_bytes if inputs.sample is None else round(inputs.sample * fed.samples)
        copies.append(_copy("read", READ, inputs.way, size))
    if inputs.decode:
        work = round(inputs.decode * 1e9 * fed.samples)
        copies.append(
            replace(_copy("decode", DECODE, HostPath.DECODE, work), bandwidth_limit=inputs.decoding)
        )
    copies.append(_copy("copy", TO_DEVICE, HostPath.TO_DEVICE, fed.num_bytes))
    return [InstructionBlock(f"input.{copy.name}", INPUT, (copy,), ()) for copy in copies]


def _copy(name: str, stream: str, way: HostPath, size: int) -> Instruction:
    reason = (
        f"micro-batches come over {way}" if way is not HostPath.DECODE else "samples are decoded on the host"
    )
    return Instruction(
        name,
        InstructionKind.COPY,
        stream,
        (),
        operation=str(way),
        group=(str(way),),
        num_bytes=size,
        reason=reason,
    )


def input_buffer(fed: RankInput) -> PersistentBuffer:
    """The buffer of the next micro-batch on the device."""
    return PersistentBuffer.reserved("input buffer", Category.ACTIVATIONS, fed.num_bytes)


def add_input_executions(
    executions: Executions, codes: Sequence[InstructionBlock], prefetch: int, numbers: Sequence[int]
) -> Executions:
    """The executions of a part with those of its input pipeline; ``numbers`` are those of its codes."""
    return Executions.of(_Fed(executions.objects, codes, prefetch, numbers[::-1]).run())


@dataclass
class _Fed:
    """The input pipeline backwards: ``stages`` begins with the copy to the device.

    When a micro-batch is about to be worked on, the next is copied, one so many further is decoded as the
    host keeps, and the one behind that is read: in a step every stage does as much as in any other.
    """

    executions: Sequence[BlockExecution]
    codes: Sequence[InstructionBlock]
    prefetch: int
    stages: Sequence[int]

    def run(self) -> list[BlockExecution]:
        readers = list(self._readers())
        self.first = [places[0] for places in readers]
        self.kernels = [
            place
            for place, execution in enumerate(self.executions)
            if COMPUTE in self.codes[execution.code].streams
        ]
        shift = np.zeros(len(self.executions), dtype=np.int64)
        shift[self.first] = len(self.stages)
        self.place: list[int] = (np.arange(len(shift)) + np.cumsum(shift)).tolist()
        awaited = {place: turn for turn, places in enumerate(readers) for place in places}
        turns = {place: turn for turn, place in enumerate(self.first)}
        made: list[BlockExecution] = []
        for place, execution in enumerate(self.executions):
            if place in turns:
                made += self._ahead(turns[place])
            after = tuple((self.place[earlier], ago) for earlier, ago in execution.after)
            if place in awaited:
                after = (*after, self._done(0, awaited[place]))
            made.append(replace(execution, after=after))
        return made

    def _readers(self) -> Iterator[list[int]]:
        """By turn of the micro-batches: the places of the executions that read its feeds."""
        turns: dict[int, list[int]] = {}
        for place, execution in enumerate(self.executions):
            code = self.codes[execution.code]
            if code.phase == FORWARD and any(slot.feed for slot in code.slots):
                turns.setdefault(execution.micro_batch, []).append(place)
        yield from turns.values()

    def _ahead(self, turn: int) -> Iterator[BlockExecution]:
        """What happens when the micro-batch of a turn is about to be worked on."""
        for stage, code in enumerate(self.stages):
            due = turn + self._distance(stage)
            after = [self._free(turn) if stage == 0 else self._room(stage, due)]
            if stage + 1 < len(self.stages):
                after.append(self._done(stage + 1, due))
            batch = self.executions[self.first[due % len(self.first)]].micro_batch
            yield BlockExecution(code, "input", batch, INPUT, after=tuple(after))

    def _distance(self, stage: int) -> int:
        """How many micro-batches a stage is ahead of the kernels."""
        return 1 if stage == 0 else self.prefetch + stage

    def _room(self, stage: int, turn: int) -> tuple[int, int]:
        """What makes room for what a stage makes of a turn's micro-batch: decoded ones, and one more read."""
        return self._done(0, turn - self.prefetch) if stage == 1 else self._done(stage - 1, turn - 2)

    def _done(self, stage: int, turn: int) -> tuple[int, int]:
        """Where a stage has to do with the micro-batch of a turn, and how many steps ago."""
        ago, before = divmod(turn - self._distance(stage), len(self.first))
        return self.place[self.first[before]] - len(self.stages) + stage, -ago

    def _free(self, turn: int) -> tuple[int, int]:
        """The kernels before those of a turn: with their end the place of an earlier micro-batch is free."""
        before = bisect_left(self.kernels, self.first[turn])
        return (self.place[self.kernels[before - 1]], 0 if before else 1)
