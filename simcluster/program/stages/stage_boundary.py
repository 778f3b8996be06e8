"""What crosses virtual stages: which values leave one for the next, over which streams, and in which buffers.

A value goes from virtual stage to virtual stage until the last that reads it has it; its gradient comes back
so. Where two virtual stages in a row are on one stage, it stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.model import Block, Graph, Instance
from simcluster.plan import VirtualStages
from simcluster.program.isa import (
    FOLDED_RECV_NEXT,
    FOLDED_RECV_PREV,
    FOLDED_SEND_NEXT,
    FOLDED_SEND_PREV,
    RECV_NEXT,
    RECV_PREV,
    SEND_NEXT,
    SEND_PREV,
)


@dataclass(frozen=True, slots=True)
class BoundaryTensor:
    """A value that passes between two virtual stages: the block that makes it and its name there, and its
    buffer at this end. ``out`` and ``back`` are the streams of the value and of its gradient. It is of one
    ``slice`` of sequences.
    """

    block: Block
    value: str
    slice: int
    buffer: str
    out: str
    back: str


@dataclass(frozen=True)
class BoundaryTensors:
    """What crosses the virtual stages of a graph that lies on a ``chain``."""

    graph: Graph
    chain: VirtualStages

    def virtual(self, instance: Instance) -> int:
        """The virtual stage of an instance; -1 of one on all stages."""
        if instance.on_all_stages:
            return -1
        return self.chain.virtual[instance.stage, instance.chunk]

    @cached_property
    def makers(self) -> dict[str, tuple[Instance, str]]:
        """Graph value -> the instance that makes it, and its name in that block."""
        return {
            instance.output(value): (instance, value)
            for instance in self.graph.instances
            for value in self.graph.block_of(instance).outputs
        }

    @cached_property
    def reach(self) -> dict[str, tuple[int, int]]:
        """Graph value -> the virtual stage that makes it, and the last that reads it."""
        last: dict[str, tuple[int, int]] = {}
        for reader in self.graph.instances:
            if reader.on_all_stages:
                continue
            there = self.virtual(reader)
            for outer in reader.inputs:
                maker, _ = self.makers[outer]
                if maker.on_all_stages:
                    continue
                first = self.virtual(maker)
                if there < first:
                    raise PlanError(
                        f"{reader.name} on stage {reader.stage} reads {outer} of stage {maker.stage}: "
                        "values pass to later stages only",
                        path="parallel.schedule.stages",
                    )
                last[outer] = first, max(there, last.get(outer, (first, first))[1])
        return last

    def buffer(self, outer: str, virtual: int) -> str:
        """What a graph value is called on the stage of a virtual stage.

        What comes to a stage again, for a later chunk, is another copy of it.
        """
        if virtual < 0 or self.makers[outer][0].on_all_stages:
            return outer
        first, arrival = self.virtual(self.makers[outer][0]), self.chain.arrival(virtual)
        chunk = self.chain.places[arrival][1]
        return f"{outer} (chunk {chunk})" if chunk and arrival > first else outer

    def gradient_buffer(self, outer: str) -> str:
        """What the gradient of a graph value is called where it is made: a reader that hands on the gradient
        of its own result, as a sum does, makes none.
        """
        while outer in self._handed_on:
            outer = self._handed_on[outer]
        return f"{outer}.grad"

    @cached_property
    def _handed_on(self) -> dict[str, str]:
        """Graph value -> the result of its first reader that hands on the gradient of that."""
        handed: dict[str, str] = {}
        for instance in self.graph.instances:
            block = self.graph.block_of(instance)
            made = {block.gradients.get(value): value for value in reversed(block.outputs)}
            read = dict(zip(reversed(instance.inputs), reversed(block.inputs), strict=True))
            for outer, inner in read.items():
                gradient = block.gradients.get(inner)
                if gradient is not None and gradient in made:
                    handed.setdefault(outer, instance.output(made[gradient]))
        return handed

    def arrivals(self, virtual: int) -> Iterator[BoundaryTensor]:
        """What comes from the virtual stage before, if that is on another stage."""
        if virtual and (step := self.chain.step(virtual - 1)):
            streams = (RECV_PREV, SEND_PREV) if step > 0 else (FOLDED_RECV_NEXT, FOLDED_SEND_NEXT)
            for outer, (first, last) in self.reach.items():
                if first < virtual <= last:
                    yield self._crossing(outer, virtual, streams)

    def departures(self, virtual: int) -> Iterator[BoundaryTensor]:
        """What goes to the virtual stage behind, if that is on another stage."""
        if virtual + 1 < len(self.chain) and (step := self.chain.step(virtual)):
            streams = (SEND_NEXT, RECV_NEXT) if step > 0 else (FOLDED_SEND_PREV, FOLDED_RECV_PREV)
            for outer, (first, last) in self.reach.items():
                if first <= virtual < last:
                    yield self._crossing(outer, virtual, streams)

    def _crossing(self, outer: str, virtual: int, streams: tuple[str, str]) -> BoundaryTensor:
        maker, value = self.makers[outer]
        return BoundaryTensor(
            self.graph.block_of(maker), value, maker.slice, self.buffer(outer, virtual), *streams
        )
