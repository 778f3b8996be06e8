"""Stages whose gradients travel in buckets that are equal up to names: lowered once, and renamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.model import Instance
from simcluster.program.buckets.gradient_buckets import GradientBucket, Ties
from simcluster.program.isa import InstructionBlock
from simcluster.program.lowering import reduction_nodes
from simcluster.program.stages import StageContext

_Stage = tuple[list[Instance], list[tuple[GradientBucket, int]]]
"""The instances of a stage in the order of their backward, and its buckets, each with its code."""


@dataclass(frozen=True)
class EqualStages:
    """The buckets of the stages so far, by the blocks of these.

    ``ties`` are the gradients of parameters with copies on several stages, as ``crossing_ties`` has them.
    """

    ties: Ties
    stages: dict[tuple[str, ...], _Stage] = field(default_factory=dict)
    texts: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)

    def add(self, part: StageContext, buckets: list[tuple[GradientBucket, int]]) -> None:
        """Keeps the buckets of a stage, each with its code, for others that are equal to it."""
        if self._regular(part):
            self.stages[self._key(part)] = part.backward, buckets

    def renamed(self, part: StageContext) -> Iterator[tuple[str, str, list[str], int]] | None:
        """The buckets of a stage as those of an equal one: the name of each, the instance that makes the last
        of its gradients, its values and its code; None if no equal one is known.
        """
        known = self.stages.get(self._key(part))
        return None if known is None or not self._regular(part) else self._renamed(part, *known)

    def _renamed(
        self, part: StageContext, backward: Sequence[Instance], buckets: Sequence[tuple[GradientBucket, int]]
    ) -> Iterator[tuple[str, str, list[str], int]]:
        own = {was.name: instance.name for was, instance in zip(backward, part.backward, strict=True)}
        names = {
            f"{was.name}.{text}": f"{own[was.name]}.{text}"
            for was in backward
            for texts in self._texts(part, was)
            for text in texts
        }
        for bucket, number in buckets:
            code = part.codes.codes[number]
            name = f"stage{part.stage}.{bucket.block.name}.{code.phase}"
            values = [names[value] for value in bucket.block.values]
            yield bucket.block.name, own[bucket.at], values, part.codes.add(_with_names(code, name, names))

    def _key(self, part: StageContext) -> tuple[str, ...]:
        return tuple(instance.block for instance in part.backward)

    def _regular(self, part: StageContext) -> bool:
        """Whether names do not matter to what travels together, and buffers are called as their values."""
        policy = part.codes.policy
        if policy.fusion is not None or (policy.buckets is not None and policy.buckets.closed_after):
            return False
        keys = (
            (instance.name, value) for instance in part.backward for value in self._texts(part, instance)[0]
        )
        return not any(key in part.names or key in self.ties for key in keys)

    def _texts(self, part: StageContext, instance: Instance) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The values and the nodes of the reductions of an instance, as its block calls them."""
        if instance.block not in self.texts:
            nodes = reduction_nodes(part.graph.block_of(instance))
            values = dict.fromkeys(value for node in nodes for value in (*node.inputs, *node.outputs))
            self.texts[instance.block] = tuple(values), tuple(node.name for node in nodes)
        return self.texts[instance.block]


def _with_names(code: InstructionBlock, name: str, names: Mapping[str, str]) -> InstructionBlock:
    """The code with another name, and with other names of its slots and of what it runs for one of them."""
    instructions = tuple(
        replace(
            instruction,
            name=names.get(instruction.name, instruction.name),
            calls=tuple(replace(call, name=names.get(call.name, call.name)) for call in instruction.calls),
        )
        for instruction in code.instructions
    )
    slots = tuple(replace(slot, name=names[slot.name]) for slot in code.slots)
    return InstructionBlock(name, code.phase, instructions, slots)
