"""What one part of a Program is lowered from: its instances, their order, and what its buffers are called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from simcluster.deferred_dataclass import dataclass
from simcluster.model import Graph, Instance
from simcluster.plan import FORWARD, Action
from simcluster.program.isa import BlockExecution
from simcluster.program.lowering import BEGIN, CodeTable
from simcluster.program.stages.stage_boundary import BoundaryTensors
from simcluster.program.stages.value_names import buffer_names

ONCE = -1
"""The micro-batch of what runs once per step."""


@dataclass(frozen=True)
class StageContext:
    """The instances of a stage and the actions of its timetable; codes are shared by all parts.

    ``names`` grows with what travels: buckets and values that cross stages call their buffers.
    """

    graph: Graph
    crossings: BoundaryTensors
    stage: int
    actions: Sequence[Action]
    codes: CodeTable

    @cached_property
    def instances(self) -> list[Instance]:
        """Those of the stage, in the order of their forward."""
        return [
            instance
            for instance in self.graph.instances
            if instance.stage == self.stage or instance.on_all_stages
        ]

    @cached_property
    def chunks(self) -> dict[int, list[Instance]]:
        """The instances by chunk; what is on all stages is one more."""
        shared = dict.fromkeys(instance.chunk for instance in self.instances if instance.on_all_stages)
        return {
            chunk: [instance for instance in self.instances if instance.chunk == chunk]
            for chunk in (*range(self.crossings.chain.num_chunks), *shared)
        }

    @cached_property
    def num_slices(self) -> int:
        """Slices of sequences, each with instances of its own."""
        return 1 + max(instance.slice for instance in self.instances)

    @cached_property
    def slices(self) -> dict[tuple[int, int], list[Instance]]:
        """The instances by chunk and slice."""
        return {
            (chunk, part): [instance for instance in instances if instance.slice == part]
            for chunk, instances in self.chunks.items()
            for part in range(self.num_slices)
        }

    @cached_property
    def names(self) -> dict[tuple[str, str], str]:
        """(instance, value) -> buffer, where that is not simply ``instance.value``."""
        return buffer_names(self.graph, self.crossings, self.instances)

    @cached_property
    def backward(self) -> list[Instance]:
        """The instances in the order in which their last backward is over."""
        over = [half.chunk for action in self.actions for half in action.parts if half.kind != FORWARD]
        return [
            instance
            for chunk in list(dict.fromkeys(reversed(over)))[::-1]
            for part in range(self.num_slices)[::-1]
            for instance in self.slices[chunk, part][::-1]
        ]

    def buffer(self, instance: str, value: str) -> str:
        """How a value of an instance is called among all of the part."""
        return self.names.get((instance, value)) or f"{instance}.{value}"

    def codes_of(self, instance: Instance) -> Mapping[str, int]:
        """Phase -> code of an instance."""
        return self.codes.of(self.graph.block_of(instance))

    def once(self, phase: str, instances: Sequence[Instance]) -> Iterator[BlockExecution]:
        """What runs of a phase once per step."""
        for instance in instances:
            code = self.codes_of(instance).get(phase)
            if code is not None:
                yield BlockExecution(code, instance.name, ONCE, phase if phase == BEGIN else "end")
